"""The objectives that were tried beside SOAR compute what they say, and their study loads."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import pytest
import torch
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, problem
from tests.objectives.test_nfgsm import found_by
from torch import Tensor

from soar.experiments import loading
from soar.losses import cross_entropy
from soar.objectives import NFGSM, QUB, SOAR, check_objective
from soar.threat import L2, Linf, Threat

FILE = Path(__file__).parents[2] / "benchmarks" / "second_order.toml"
_spec = importlib.util.spec_from_file_location("benchmarks_second_order", FILE.with_suffix(".py"))
assert _spec is not None and _spec.loader is not None
variants = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(variants)


@pytest.mark.parametrize("name", ["Remembered", "BoundAndPenalty", "SecondDifferences"])
def test_they_keep_the_contract_of_objectives(name: str) -> None:
    check_objective(partial(getattr(variants, name), penalty_fraction=1.0))


@for_threats
def test_second_differences_are_the_formula_written_out(threat: Threat) -> None:
    model, x, y = problem()
    found = variants.SecondDifferences(model, threat, weight=3.0, penalty_fraction=0.5, seed=2)(
        x, y, INDEX, STEP
    )
    end, gradient = found_by(NFGSM(model, threat, seed=2), x, y)
    start = (end - threat.radius * threat.ascent(gradient)).clamp(0, 1)

    def loss(points: Tensor) -> Tensor:
        return cross_entropy(model(points), y)

    squares = (loss(end) - 2 * loss((start + end) / 2) + loss(start)).square()[:3]
    shared.assert_same_loss_and_gradients(model, found.loss, loss(end).mean() + 3 * squares.mean())


@for_threats
def test_bound_and_penalty_are_the_sum_of_both(threat: Threat) -> None:
    model, x, y = problem()
    options = {"penalty_fraction": 0.5, "penalty_weight": 0.7, "seed": 2}
    found = variants.BoundAndPenalty(model, threat, **options)(x, y, INDEX, STEP)
    bound = QUB(model, threat, seed=2)(x, y, INDEX, STEP).loss
    soar = SOAR(model, threat, init="nfgsm", **options)(x, y, INDEX, STEP)  # type: ignore[arg-type]
    penalty = soar.loss - cross_entropy(model(found_by(NFGSM(model, threat, seed=2), x, y).points), y).mean()
    shared.assert_same_loss_and_gradients(model, found.loss, bound + penalty)


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")], ids=str)
def test_the_next_visit_starts_where_the_last_one_ended_also_after_a_restart(threat: Threat) -> None:
    model, x, y = problem()
    objective = variants.Remembered(model, threat, seed=2)
    objective(x, y, INDEX, 0)
    left = x + threat.radius * objective.remembered.moves.of(INDEX, tuple(x.shape[1:])).to(x.dtype)
    resumed = variants.Remembered(model, threat, seed=2)
    resumed.load_state_dict(objective.state_dict())
    for one in (objective, resumed):
        where = {"index": INDEX, "seed": 2, "step": 1}
        points, gradient = one.init.find(model, threat, x, y, **where)
        start = threat.project(left, x).requires_grad_()
        (expected,) = torch.autograd.grad(cross_entropy(model(start), y).sum(), start)
        assert gradient is not None
        torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-9)
        moved = threat.project(start.detach() + threat.radius * threat.ascent(expected), x)
        torch.testing.assert_close(points, moved)


def test_the_study_loads() -> None:
    study = loading.load(str(FILE))
    assert len(study.rows) == 6
