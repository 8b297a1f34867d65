"""The objective and the attack of the examples compute what their docstrings say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import soar
from soar.attacks import PGD, check_attack, perturb
from soar.errors import UserError
from soar.objectives import check_objective
from tests.attacks.problems import TinyNet, images, said
from tests.examples.running import load


@pytest.fixture
def jacobian(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load("custom_objective", monkeypatch)["Jacobian"]


@pytest.fixture
def momentum(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load("custom_attack", monkeypatch)["Momentum"]


def test_the_penalty_of_orthonormal_rows_is_half_the_classes_in_every_direction(jacobian: Any) -> None:
    linear = nn.Linear(16, 4, bias=False, dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(4, 16))
    objective = jacobian(nn.Sequential(nn.Flatten(), linear), soar.Linf("0.1"), weight=0.3)
    x = torch.rand(5, 1, 4, 4, dtype=torch.float64)
    penalty = objective(x, torch.arange(5) % 4).metrics["penalty"]
    torch.testing.assert_close(penalty, torch.tensor(0.3 / 2 * 4, dtype=torch.float64))


def test_the_penalty_is_right_on_average(jacobian: Any) -> None:
    linear = nn.Linear(4, 3, bias=False, dtype=torch.float64)
    objective = jacobian(nn.Sequential(nn.Flatten(), linear), soar.Linf("0.1"), weight=2.0)
    count = 20_000
    x, y = torch.rand(1, 1, 2, 2, dtype=torch.float64).expand(count, -1, -1, -1), torch.zeros(count).long()
    penalty = objective(x, y).metrics["penalty"]
    torch.testing.assert_close(penalty, linear.weight.detach().square().sum(), rtol=0.02, atol=0)


def test_without_weight_it_is_ordinary_training(jacobian: Any) -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    loss = jacobian(model, soar.Linf("0.1"), weight=0.0)(x, y).loss
    torch.testing.assert_close(loss, soar.objectives.Standard(model)(x, y).loss)


def test_the_objective_keeps_the_contract_at_any_weight(jacobian: Any) -> None:
    check_objective(lambda model, threat: jacobian(model, threat, weight=3.0))
    with pytest.raises(UserError, match=r"objective\.weight: got -1, expected at least 0"):
        jacobian(TinyNet(), soar.Linf("0.1"), weight=-1)


@pytest.mark.parametrize("threat", [soar.Linf("0.05"), soar.L2("0.5")])
def test_without_memory_it_is_pgd_from_the_image(momentum: Any, threat: Any) -> None:
    model, x = TinyNet(), images(6)
    y = said(model, x)
    plain = PGD(steps=4, step_size=threat.eps / 4, random_start=False)
    points = [
        perturb(model, attack, threat, x, y, index=torch.arange(6), seed=0, step=0)
        for attack in (momentum(steps=4, decay=0.0), plain)
    ]
    torch.testing.assert_close(points[0], points[1])


def test_memory_changes_where_it_ends_and_keeps_the_contract(momentum: Any) -> None:
    model, x, threat = TinyNet(), images(6), soar.L2("0.5")
    y = said(model, x)
    ends = [
        perturb(model, momentum(steps=6, decay=decay), threat, x, y, index=torch.arange(6), seed=0, step=0)
        for decay in (0.0, 1.0)
    ]
    assert not torch.equal(*ends)
    check_attack(momentum(steps=2, decay=0.5))
    with pytest.raises(UserError, match=r"attack\.steps: got 0, expected at least 1"):
        momentum(steps=0)
