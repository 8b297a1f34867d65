"""Check that an objective keeps the contract; for the tests of this package and of your own objectives."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from soar import randomness, values
from soar.errors import UserError, shown
from soar.objectives.objective import Objective, Output
from soar.threat import L1, L2, Linf, Threat

Build = Callable[[nn.Module, Threat], Objective]


def check_objective(build: Build, *, norms: tuple[str, ...] = ("linf", "l2", "l1"), seed: int = 0) -> None:
    """Build an objective on small networks and check that it keeps the contract.

    Checked for one channel of 28x28 and three of 32x32, two and ten classes, and every norm: the loss is a
    finite scalar whose gradient reaches every parameter; the loss of a batch is the mean of the losses of
    its examples, unless the objective says that it couples them; the same seed and step lead to the same
    loss; channels_last makes no difference; mode, flags and parameters of the model are left as they were;
    BatchNorm sees exactly one batch; the global random number generator is not used. A norm that is not
    listed must be refused with a UserError.

    Args:
        build: returns the objective for a model and a threat
        norms: the norms that the objective supports
        seed: seed of the networks and images

    Raises:
        AssertionError: naming the part of the contract that is broken
        UserError: if `build` is an objective instead of a function that builds one

    >>> from soar.objectives import Adversarial
    >>> check_objective(lambda model, threat: Adversarial(model, threat, steps=2))
    """
    if isinstance(build, Objective):
        name = type(build).__name__
        raise UserError(
            f"build: got an objective, expected such as lambda model, threat: {name}(model, threat)"
        )
    if not callable(build):
        raise UserError(f"build: got {shown(build)}, expected a function of a model and a threat")
    values.whole(seed, "seed", least=0)
    threats: dict[str, Threat] = {"linf": Linf("8/255"), "l2": L2("1/2"), "l1": L1(4)}
    for shape, classes in (((1, 28, 28), 2), ((3, 32, 32), 10)):
        keys = randomness.key(seed, torch.arange(4, device="cpu"), "contract")
        x = randomness.uniform(keys, shape, torch.float64)
        y = randomness.integers(keys, classes)
        for norm, threat in threats.items():
            if norm in norms:
                _check_loss(build, threat, x, y, classes, seed)
                _check_traces(build, threat, x, y, classes, seed)
            else:
                _check_refusal(build, threat, shape, classes, seed)


def _check_loss(build: Build, threat: Threat, x: Tensor, y: Tensor, classes: int, seed: int) -> None:
    index = torch.arange(10, 10 + len(y), device="cpu")

    def output(rows: slice, images: Tensor = x) -> tuple[Output, Objective]:
        objective = build(_network(x.shape[1], classes, seed, batch_norm=False), threat)
        return objective(images[rows], y[rows], index[rows], 3), objective

    whole, objective = output(slice(None))
    assert whole.loss.dim() == 0 and bool(whole.loss.isfinite()), "the loss is a finite scalar"
    assert whole.logits.shape == (len(y), classes), "there are logits for every example"
    assert not whole.logits.requires_grad, "logits carry no graph"
    for name, value in whole.metrics.items():
        assert value.dim() == 0 and not value.requires_grad, f"metric {name} is a scalar without a graph"
    whole.loss.backward()
    for name, parameter in objective.model.named_parameters():
        assert parameter.grad is not None, f"the gradient reaches {name}"
        assert bool(parameter.grad.isfinite().all()), f"the gradient of {name} is finite"
    if not objective.couples_examples:
        alone = torch.stack([output(slice(i, i + 1))[0].loss for i in range(len(y))]).mean()
        assert torch.allclose(alone, whole.loss, rtol=1e-8), "a batch is the mean of its examples"
    assert torch.equal(output(slice(None))[0].loss, whole.loss), "the same seed gives the same loss"
    last = output(slice(None), x.to(memory_format=torch.channels_last))[0].loss
    assert torch.allclose(last, whole.loss, rtol=1e-8), "channels_last makes no difference"


def _check_traces(build: Build, threat: Threat, x: Tensor, y: Tensor, classes: int, seed: int) -> None:
    model = _network(x.shape[1], classes, seed, batch_norm=True)
    first = next(model.parameters())
    first.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    generator = torch.get_rng_state()
    with warnings.catch_warnings():
        # An objective may warn of BatchNorm; it must keep the contract all the same.
        warnings.simplefilter("ignore")
        objective = build(model, threat)
    objective(x, y, torch.arange(len(y), device="cpu")).loss.backward()
    assert modes == [module.training for module in model.modules()], "the mode is left as it was"
    after = list(model.parameters())
    assert flags == [parameter.requires_grad for parameter in after], "flags are left as they were"
    assert all(map(torch.equal, before, after)), "parameters are left as they were"
    assert torch.equal(generator, torch.get_rng_state()), "the global generator is not used"
    assert int(model.get_buffer("1.num_batches_tracked")) == 1, "BatchNorm sees exactly one batch"


def _check_refusal(
    build: Build, threat: Threat, shape: tuple[int, int, int], classes: int, seed: int
) -> None:
    try:
        build(_network(shape[0], classes, seed, batch_norm=False), threat)
    except UserError:
        return
    raise AssertionError(f"a norm that is not supported is refused ({threat})")


def _network(channels: int, classes: int, seed: int, *, batch_norm: bool) -> nn.Module:
    """Return a small smooth network in float64, so that rounding does not matter."""
    with torch.random.fork_rng(), torch.device("cpu"):
        torch.manual_seed(seed)
        layers = nn.Sequential(
            nn.Conv2d(channels, 3, 3, stride=2),
            nn.BatchNorm2d(3) if batch_norm else nn.Identity(),
            nn.Softplus(),
            nn.AdaptiveAvgPool2d(3),
            nn.Flatten(),
            nn.Linear(27, classes),
        )
    return layers.to(torch.float64)
