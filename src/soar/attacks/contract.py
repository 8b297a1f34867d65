"""Check that an attack keeps the contract; for the tests of this package and of your own attacks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from soar import randomness, values
from soar.attacks.attack import Attack, require_attack
from soar.attacks.engine import run
from soar.errors import UserError
from soar.threat import L1, L2, Linf, Threat


def check_attack(
    attack: Attack[Any], *, norms: tuple[str, ...] = ("linf", "l2", "l1"), seed: int = 0
) -> None:
    """Check an attack on small networks, and fail if it breaks a promise.

    Checked for every norm, one and three channels, oblong images, two and ten classes:
    results do not depend on the batch size, the order or the other examples; the same seed leads to the same
    points; every point lies in the ball and the pixel range and success means misclassification; the
    model and the global random numbers are left as they were. A norm that is not listed must be refused
    with a UserError.

    Args:
        attack: the attack to check
        norms: the norms that the attack supports
        seed: seed of the networks and images

    Raises:
        AssertionError: naming the promise that was broken
        UserError: if it is not an attack at all

    >>> from soar.attacks import PGD
    >>> check_attack(PGD(steps=2))
    """
    require_attack(attack)
    values.whole(seed, "seed", least=0)
    assert attack.label, "an attack has a label"
    for shape, classes in (((1, 6, 5), 2), ((3, 5, 6), 10)):
        model = _network(shape, classes, seed)
        keys = randomness.key(seed, torch.arange(12, device="cpu"), "contract")
        x = randomness.uniform(keys, shape, torch.float64)
        with torch.no_grad():
            labels = model(x).argmax(dim=1)
        threats: list[Threat] = [Linf("1/20"), L2("1/4"), L1(1)]
        for threat in threats:
            if threat.norm_name in norms:
                _check_run(attack, threat, model, x, labels, seed)
            else:
                _check_refusal(attack, threat, model, x, labels)


def _check_run(
    attack: Attack[Any], threat: Threat, model: nn.Module, x: Tensor, labels: Tensor, seed: int
) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    generator = torch.get_rng_state()
    whole = run(model, attack, threat, x, labels, seed=seed, batch_size=64)
    again = run(model, attack, threat, x, labels, seed=seed, batch_size=64)
    assert torch.equal(whole.adversarial, again.adversarial), "the same seed gives the same points"
    assert threat.contains(whole.adversarial, x).all(), "points lie in the ball and the pixel range"
    with torch.no_grad():
        predicted = model(whole.adversarial).argmax(dim=1)
    assert torch.equal(predicted == labels, whole.robust), "success is a misclassification"
    for size in (1, 5):
        part = run(model, attack, threat, x, labels, seed=seed, batch_size=size)
        assert torch.equal(part.robust, whole.robust), "results do not depend on the batch size"
    order = torch.arange(len(x) - 1, -1, -1, device="cpu")
    turned = run(model, attack, threat, x[order], labels[order], index=order, seed=seed, batch_size=5)
    assert torch.equal(turned.robust[order], whole.robust), "results do not depend on the order"
    assert torch.equal(generator, torch.get_rng_state()), "the global generator is not used"
    for name, value in model.state_dict().items():
        assert torch.equal(before[name], value), f"the model is left as it was ({name})"


def _check_refusal(attack: Attack[Any], threat: Threat, model: nn.Module, x: Tensor, labels: Tensor) -> None:
    try:
        run(model, attack, threat, x, labels)
    except UserError:
        return
    raise AssertionError(f"a norm that is not supported is refused ({threat})")


def _network(shape: tuple[int, int, int], classes: int, seed: int) -> nn.Module:
    """Make a small smooth network in float64, where rounding cannot decide an outcome."""
    with torch.random.fork_rng(), torch.device("cpu"):
        torch.manual_seed(seed)
        pixels = shape[1] * shape[2]
        layers = nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(4 * pixels, classes),
        )
    return layers.to(torch.float64).eval()
