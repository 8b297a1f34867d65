from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from soar.attacks import PGD, perturb
from soar.cost import Counter
from soar.data import Batch
from soar.distributed import World
from soar.objectives import OBJECTIVES, TRADES, Adversarial, Objective, Standard
from soar.registry import Entry
from soar.threat import Linf
from soar.training.updates import Updates
from soar.training.weights import perturbed_weights
from tests.attacks.problems import Passes, TinyNet, images, said
from tests.training import small

THREAT = Linf("0.03")


def updates(objective: Objective, **changes: Any) -> Updates:
    """Plain descent on batches of eight, six of them an epoch."""
    settings = small.settings(
        **({"momentum": 0.0, "weight_decay": 0.0, "schedule": "constant", "channels_last": False} | changes)
    )
    return Updates(objective, settings, 6, device=torch.device("cpu"), world=World())


def batch() -> Batch:
    x = images(8)
    y = said(TinyNet(seed=3), x)
    y[3], y[6] = (y[3] + 1) % 5, (y[6] + 2) % 5
    return Batch(x, y, torch.arange(20, 28))


def copies(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def slopes(loss: Tensor, model: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


def gradients(model: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def assert_all_close(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def moved(model: nn.Module, gradient: list[Tensor], size: float) -> nn.Module:
    """The definition written out: every weight of two or more dimensions goes uphill."""
    other = copy.deepcopy(model)
    for w, g in zip(other.parameters(), gradient, strict=True):
        if w.dim() > 1:
            w.data = w.data + size * w.data.norm() * g / g.norm()
    return other


@pytest.mark.parametrize("step", [0, 5])
def test_an_update_is_the_method_written_out(step: int) -> None:
    model, size, rate = TinyNet(seed=3), 0.02, 0.1
    x, y, index = batch()
    before = copies(model)
    points = perturb(model, PGD(steps=3), THREAT, x, y, index=index, seed=4, step=step)
    shifted = moved(model, slopes(F.cross_entropy(model(points), y), model), size)
    loss = F.cross_entropy(shifted(points), y)
    expected = slopes(loss, shifted)
    other_attack = perturb(shifted, PGD(steps=3), THREAT, x, y, index=index, seed=4, step=step)
    assert not torch.allclose(other_attack, points), (
        "an attack on the moved weights would have ended elsewhere"
    )

    made = updates(Adversarial(model, THREAT, steps=3, seed=4), weight_perturbation=size, lr=rate)
    made.prepare(step)
    figures = made.backward(batch(), step)
    assert all(map(torch.equal, model.parameters(), before)), "the weights are back, bit for bit"
    torch.testing.assert_close(figures["loss"], loss.detach())
    assert_all_close(gradients(model), expected)
    made.apply(step, float(figures["grad_norm"]))
    assert_all_close(copies(model), [w - rate * g for w, g in zip(before, expected, strict=True)])


def test_two_updates_with_momentum_and_decay_are_those_of_torch() -> None:
    model = TinyNet(seed=3)
    bare = copy.deepcopy(model)
    x, y, _ = batch()
    optimizer = torch.optim.SGD(bare.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    made = updates(Standard(model), weight_perturbation=0.03, momentum=0.9, weight_decay=0.01, lr=0.05)
    for step in range(2):
        shifted = moved(bare, slopes(F.cross_entropy(bare(x), y), bare), 0.03)
        for w, g in zip(bare.parameters(), slopes(F.cross_entropy(shifted(x), y), shifted), strict=True):
            w.grad = g
        optimizer.step()
        made.prepare(step)
        made.apply(step, float(made.backward(batch(), step)["grad_norm"]))
    assert_all_close(copies(model), copies(bare))


def test_the_attack_is_paid_for_once() -> None:
    model = Passes()
    updates(Adversarial(model, THREAT, steps=3), weight_perturbation=0.01).backward(batch(), 0)
    assert model.modes == [False] * 3 + [True] * 2
    model.modes.clear()
    updates(Adversarial(model, THREAT, steps=3), weight_perturbation=0.01, accumulation_steps=2).backward(
        batch(), 0
    )
    assert model.modes == ([False] * 3 + [True]) * 2 + [True] * 2


@pytest.mark.parametrize(
    "name, forwards, backwards",
    [
        ("standard", 2, 2),
        ("adversarial", 10 + 2, 10 + 2),
        ("trades", 10 + 4, 10 + 4),
        ("mart", 10 + 4, 10 + 4),
        ("mma", 20 + 4, 10 + 4),
        ("llr", 10 + 4, 10 + 6),
        ("foar", 1 + 2, 1 + 4),
        ("nfgsm", 1 + 2, 1 + 2),
        ("rs-fgsm", 1 + 2, 1 + 2),
        ("qub", 1 + 4, 1 + 4),
        ("pgi", 1 + 4, 1 + 4),
        ("nuat", 1 + 4, 1 + 4),
        ("elle", 1 + 8, 1 + 8),
        ("grad-align", 1 + 4, 1 + 6),
    ],
)
def test_no_search_is_made_a_second_time(name: str, forwards: int, backwards: int) -> None:
    model = TinyNet(seed=3)
    made = updates(OBJECTIVES.build(name, {}, model, THREAT), weight_perturbation=0.01)
    with Counter(model) as counter:
        made.backward(batch(), 0)
    assert (counter.forwards, counter.backwards) == (forwards, backwards)


def with_batch_norm() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(48, 5)
        return nn.Sequential(*layers).double()


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_batch_norm_counts_one_batch(entry: Entry[Objective]) -> None:
    model = with_batch_norm()
    objective = entry.build(model, THREAT)
    updates(objective, weight_perturbation=0.01).backward(batch(), 0)
    layer = model.get_submodule("1")
    assert isinstance(layer, nn.BatchNorm2d)
    assert int(model.get_buffer("1.num_batches_tracked")) == 1
    assert layer.training and layer.track_running_stats


def test_batch_norm_counts_what_the_perturbed_weights_see() -> None:
    model = with_batch_norm()
    x, y, _ = batch()
    start = copy.deepcopy(model)
    shifted = moved(model, slopes(F.cross_entropy(start(x), y), start), 0.5)
    shifted(x)
    updates(Standard(model), weight_perturbation=0.5).backward(batch(), 0)
    for name in ("1.running_mean", "1.running_var"):
        torch.testing.assert_close(model.get_buffer(name), shifted.get_buffer(name))
        assert not torch.allclose(model.get_buffer(name), start.get_buffer(name), rtol=1e-4)


@pytest.mark.parametrize("step, looks", [(0, 1), (8, 1), (9, 2), (10, 2)])
def test_perturbation_can_begin_later(step: int, looks: int) -> None:
    model = Passes()
    made = updates(Standard(model), weight_perturbation=0.01, weight_perturbation_after=1.5)
    made.prepare(step)
    made.backward(batch(), 0)
    assert model.modes == [True] * looks


@pytest.mark.parametrize(
    "name", ["standard", "adversarial", "trades", "mma", "llr", "soar penalty_grad_clip=0.01", "pgi", "elle"]
)
def test_micro_batches_make_no_difference(name: str) -> None:
    found = []
    for accumulate in (1, 2, 4):
        model = TinyNet(seed=3)
        kind, *settings = name.split()
        chosen = dict(setting.split("=") for setting in settings)
        made = updates(
            OBJECTIVES.build(kind, chosen, model, THREAT),
            weight_perturbation=0.02,
            accumulation_steps=accumulate,
        )
        figures = made.backward(batch(), 0)
        found.append([*gradients(model), figures["loss"], figures["grad_norm"]])
    assert_all_close(found[1], found[0])
    assert_all_close(found[2], found[0])


@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_every_objective_can_be_trained_so(entry: Entry[Objective], accumulate: int) -> None:
    def update(size: float) -> tuple[list[Tensor], dict[str, Tensor]]:
        model = TinyNet(seed=3)
        made = updates(
            entry.build(model, THREAT),
            weight_perturbation=size,
            label_smoothing=0.1,
            accumulation_steps=accumulate,
            lr=0.001,
        )
        made.prepare(0)
        figures = made.backward(batch(), 0)
        made.apply(0, float(figures["grad_norm"]))
        return copies(model), figures

    (after, figures), (plain, _) = update(0.01), update(0.0)
    assert all(value.isfinite() for value in figures.values())
    assert all(weight.isfinite().all() for weight in after)
    assert not any(map(torch.equal, after, plain)), "the perturbation matters for every weight"


class Failing(TRADES):
    """Gives up in the second look at the batch."""

    looks = 0

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Any:
        self.looks += 1
        if self.looks == 2:
            raise KeyError("no more")
        return super().compute(x, y, index, step)


def test_an_exception_leaves_the_weights_as_they_were() -> None:
    model = TinyNet(seed=3)
    before = copies(model)
    made = updates(Failing(model, THREAT), weight_perturbation=0.5)
    with pytest.raises(KeyError, match="no more"):
        made.backward(batch(), 0)
    assert all(map(torch.equal, model.parameters(), before))
    figures = made.backward(batch(), 0)
    fresh = updates(TRADES(TinyNet(seed=3), THREAT), weight_perturbation=0.5).backward(batch(), 0)
    torch.testing.assert_close(figures["loss"], fresh["loss"], msg="nothing is left over from the failure")


def weights(*shape: int, dtype: torch.dtype, seed: int) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    weight = nn.Parameter(torch.randn(*shape, generator=generator, dtype=dtype))
    weight.grad = torch.randn(*shape, generator=generator, dtype=dtype)
    return weight


@given(st.integers(0, 1000), st.floats(1e-4, 1), st.sampled_from([torch.float32, torch.float64]))
def test_every_layer_moves_by_its_share_of_its_norm(seed: int, size: float, dtype: torch.dtype) -> None:
    layers = [weights(3, 4, dtype=dtype, seed=seed), weights(2, 3, 2, 2, dtype=dtype, seed=seed + 1)]
    still = [weights(4, dtype=dtype, seed=seed + 2), nn.Parameter(torch.ones(2, 2, dtype=dtype))]
    before = [w.detach().clone() for w in (*layers, *still)]
    uphill = [w.grad.clone() for w in layers if w.grad is not None]
    with perturbed_weights([*layers, *still], size):
        assert all(w.grad is None for w in (*layers, *still)), "the gradients are used up"
        for w, old, g in zip(layers, before, uphill, strict=False):
            move = w.detach() - old
            torch.testing.assert_close(move.norm(), size * old.norm(), rtol=1e-3, atol=0)
            torch.testing.assert_close(F.cosine_similarity(move.flatten(), g.flatten(), dim=0).item(), 1.0)
        assert all(map(torch.equal, still, before[2:])), "vectors and weights without a gradient stay"
    assert all(map(torch.equal, (*layers, *still), before)), "all are back, bit for bit"


def test_a_layer_of_zeros_or_without_a_slope_stays_where_it_is() -> None:
    zero, flat = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.ones(2, 2))
    zero.grad, flat.grad = torch.ones(2, 2), torch.zeros(2, 2)
    with perturbed_weights([zero, flat], 0.1):
        assert torch.equal(zero, torch.zeros(2, 2)) and torch.equal(flat, torch.ones(2, 2))


@pytest.mark.parametrize("scale", [1e-30, 1e-23, 1e-10, 1e10])
def test_the_length_of_a_gradient_plays_no_part(scale: float) -> None:
    one, other = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
    one.grad = torch.tensor([[1.0, -2, 3], [0.5, 0, 1]])
    other.grad = scale * one.grad
    with perturbed_weights([one, other], 0.01):
        torch.testing.assert_close(other, one)


def test_frozen_weights_stay_where_they_are() -> None:
    model = TinyNet(seed=3)
    first = next(model.parameters())
    first.requires_grad_(False)
    seen: list[Tensor] = []
    model.register_forward_pre_hook(lambda *_: seen.append(first.detach().clone()))
    updates(Standard(model), weight_perturbation=0.1).backward(batch(), 0)
    assert len(seen) == 2 and torch.equal(*seen) and first.grad is None
