"""Attacks on a device without float64 that does not mix with the CPU, and how often they wait for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import ATTACKS, FAB, PGD, Attack, Outcomes, Square, Transfer, minimal_norm, run
from soar.attacks.engine import AttackProgress
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import images
from tests.attacks.test_contract import SMALL
from tests.pretending import DEVICE, Record, on_cpu, pretended

# Enough queries for a second block of random squares.
ENOUGH: dict[str, dict[str, Any]] = {
    "adaptive": {"restarts": 3},
    "apgd": {"steps": 4},
    "apgd-t": {"steps": 3},
    "fab": {"steps": 3, "restarts": 2},
    "pgd": {"steps": 3, "targets": 2},
    "square": {"queries": 66},
}
ALL: dict[str, Attack[Any]] = {
    **{name: ATTACKS[name].build(**options | ENOUGH.get(name, {})) for name, options in SMALL.items()},
    "pgd x2 cosine": PGD(steps=3, restarts=2, schedule="cosine"),
}
for_all = pytest.mark.parametrize("name", list(ALL))
for_norms = pytest.mark.parametrize("threat", [Linf("0.02"), L2("0.08")], ids=str)


def network(classes: int = 5) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        last = nn.Linear(36, classes)
        layers = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Flatten(), last)
    with torch.no_grad():
        # Some images then are near a border, and some are far from all.
        last.bias.sub_(layers(images(14).float()).mean(dim=0))
    return layers.eval()


def _shift(model: nn.Module, by: float) -> None:
    """Make it another model."""
    with torch.no_grad():
        next(model.parameters()).add_(by)


def problem() -> tuple[nn.Module, Tensor, Tensor]:
    """Images of which the last two are wrong from the start."""
    model, x = network(), images(14).float()
    with torch.no_grad():
        y = model(x).argmax(dim=1)
    y[-2:] = (y[-2:] + 1) % 5
    return model, x, y


def reads_of_batches(
    record: Record, attack: Attack[Any], threat: Threat, *, goal: Tensor | None = None
) -> tuple[Outcomes, list[list[str]]]:
    """What an attack finds on the device, and what the host read from it for every batch but the first."""
    model, x, y = problem()
    batches: list[list[str]] = []

    def listen(_: AttackProgress, __: Outcomes) -> None:
        batches.append(list(record.reads))
        record.reads.clear()

    found = run(model.to(DEVICE), attack, threat, x, y, goal=goal, batch_size=6, progress=listen)
    return found, batches[1:]


@for_all
@for_norms
def test_results_are_those_of_the_cpu_and_few_numbers_are_read(name: str, threat: Threat) -> None:
    model, x, y = problem()
    expected = run(model, ALL[name], threat, x, y, batch_size=6)
    assert 0 < expected.robust.sum() < expected.correct.sum() == 12, "some images are fooled and some are not"
    with pretended() as record:
        found, batches = reads_of_batches(record, ALL[name], threat)
    for field in ("correct", "robust", "forward", "backward", "predictions"):
        assert torch.equal(on_cpu(getattr(found, field)), getattr(expected, field)), field
    torch.testing.assert_close(on_cpu(found.adversarial), expected.adversarial, rtol=0, atol=1e-6)
    # One for each batch, one where points fool the model and have to be confirmed, and one of the attack's
    # own. Whether FAB and the adaptive attack want a gradient first is asked when examples start.
    most = 4 if name in ("fab", "adaptive") else 3
    assert max(map(len, batches)) <= most, max(batches, key=len)
    assert sum(map(len, batches)) <= 3 * len(batches)


def test_a_step_of_pgd_reads_once() -> None:
    with pretended() as record:
        _, batches = reads_of_batches(record, PGD(steps=8), Linf("0.001"))
    assert [len(reads) for reads in batches] == [1] * len(batches)


def test_goals_are_climbed_to_on_the_device() -> None:
    model, x, y = problem()
    expected = run(model, PGD(steps=8), Linf("0.06"), x, y, goal=(y + 1) % 5, batch_size=6)
    assert 0 < expected.robust.sum() < 14
    with pretended() as record:
        found, batches = reads_of_batches(record, PGD(steps=8), Linf("0.06"), goal=(y + 1) % 5)
    assert torch.equal(on_cpu(found.robust), expected.robust)
    assert max(map(len, batches)) <= 2


@for_norms
def test_a_judge_decides_on_the_device(threat: Threat) -> None:
    model, x, y = problem()
    judge = network()
    _shift(judge, 0.02)
    expected = run(model, PGD(steps=5), threat, x, y, judge=judge, batch_size=6)
    with pretended():
        found = run(model.to(DEVICE), PGD(steps=5), threat, x, y, judge=judge.to(DEVICE), batch_size=6)
    assert torch.equal(on_cpu(found.robust), expected.robust)
    assert torch.equal(on_cpu(found.forward), expected.forward)


def test_many_classes_are_ranked_on_the_device() -> None:
    model, x = network(classes=14), images(8).float()
    with torch.no_grad():
        y = model(x).argmax(dim=1)
    attack = ATTACKS["adaptive"].build(steps=2, restarts=3, patience=50)
    expected = run(model, attack, Linf("0.02"), x, y)
    with pretended():
        found = run(model.to(DEVICE), attack, Linf("0.02"), x, y)
    assert torch.equal(on_cpu(found.robust), expected.robust)
    assert torch.equal(on_cpu(found.backward), expected.backward)


@for_norms
def test_minimal_norms_are_measured_on_the_device(threat: Threat) -> None:
    model, x, y = problem()
    attack = FAB(steps=4, targets=2)
    expected = minimal_norm(model, attack, threat, x, y)
    with pretended():
        found = minimal_norm(model.to(DEVICE), attack, threat, x, y)
    torch.testing.assert_close(on_cpu(found.norm), expected.norm)


def test_points_are_transferred_on_the_device() -> None:
    model, x, y = problem()
    source = network()
    _shift(source, 0.05)
    expected = run(model, Transfer(source=source), Linf("0.02"), x, y)
    with pretended():
        found = run(model.to(DEVICE), Transfer(source=source.to(DEVICE)), Linf("0.02"), x, y)
    assert torch.equal(on_cpu(found.robust), expected.robust)


def test_images_may_be_where_the_model_is() -> None:
    model, x, y = problem()
    expected = run(model, Square(queries=5), Linf("0.02"), x, y)
    with pretended():
        found = run(model.to(DEVICE), Square(queries=5), Linf("0.02"), x.to(DEVICE), y.to(DEVICE))
    assert torch.equal(on_cpu(found.robust), expected.robust)
