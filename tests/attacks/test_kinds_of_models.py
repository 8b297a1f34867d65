"""Every attack on models that other people write: in place, in mixed precision, compiled."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from soar.attacks import ATTACKS, FAB, PGD, Attack, Outcomes, SimBA, Transfer, minimal_norm, run
from soar.attacks.transfer import transfer_points
from soar.prediction import predict
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import (
    OTHER_KINDS,
    OUTPUTS,
    Answering,
    DoubleHead,
    HalfInside,
    Normalized,
    images,
    said,
)
from tests.attacks.test_contract import SMALL

THREATS: list[Threat] = [Linf("1/10"), L2("1/2")]

for_attacks = pytest.mark.parametrize("name", [*SMALL, "transfer"])
for_threats = pytest.mark.parametrize("threat", THREATS, ids=str)


def built(name: str, source: nn.Module) -> Attack[Any]:
    """An attack with a small budget; what follows a source follows the given one."""
    if name == "transfer":
        return Transfer(source=source, attack=PGD(steps=3))
    attack: Attack[Any] = ATTACKS[name].build(**SMALL[name])
    return attack


def assert_same_outcomes(one: Outcomes, other: Outcomes) -> None:
    for field in fields(Outcomes):
        assert torch.equal(getattr(one, field.name), getattr(other, field.name)), field.name


@for_threats
@for_attacks
def test_a_model_that_works_in_place_is_attacked_like_one_that_does_not(name: str, threat: Threat) -> None:
    twin, model, x = Normalized(), Normalized(in_place=True), images(8).float()
    y, given = said(twin, x), x.clone()
    wanted = run(twin, built(name, twin), threat, x, y, batch_size=3)
    found = run(model, built(name, model), threat, x, y, batch_size=3)
    assert torch.equal(x, given), "the caller's images are left as they were"
    assert_same_outcomes(found, wanted)
    assert not wanted.robust.all(), "there is something to find"


@for_attacks
def test_a_model_whose_output_holds_more_than_logits_is_attacked_like_one_of_logits(name: str) -> None:
    twin, x = Answering(), images(8).float()
    y = said(twin, x)
    wanted = run(twin, built(name, twin), THREATS[0], x, y, batch_size=3)
    for kind in OUTPUTS:
        model = Answering(kind)
        assert_same_outcomes(run(model, built(name, model), THREATS[0], x, y, batch_size=3), wanted)


def test_what_goes_around_the_engine_leaves_images_alone_too() -> None:
    twin, model, x = Normalized(), Normalized(in_place=True), images(4).float()
    y, given, index = said(twin, x), x.clone(), torch.arange(4)
    assert torch.equal(predict(model, x, 3), predict(twin, x, 3))
    for one, other in zip(
        minimal_norm(model, FAB(steps=5), L2(1), x, y),
        minimal_norm(twin, FAB(steps=5), L2(1), x, y),
        strict=True,
    ):
        assert torch.equal(one, other)
    points = transfer_points(model, PGD(steps=3), Linf("0.1"), x, y, index=index)
    assert torch.equal(points, transfer_points(twin, PGD(steps=3), Linf("0.1"), x, y, index=index))
    assert torch.equal(x, given)


@pytest.mark.parametrize("kind", OTHER_KINDS)
@for_attacks
def test_models_of_any_precision_and_compiled_ones_are_attacked(name: str, kind: str) -> None:
    model, x = OTHER_KINDS[kind](), images(6).float()
    y = predict(model, x).argmax(dim=1)
    for threat in THREATS:
        found = run(model, built(name, model), threat, x, y, batch_size=4)
        assert threat.contains(found.adversarial, x).all() and found.adversarial.dtype == x.dtype
        assert torch.equal(predict(model, found.adversarial).argmax(dim=1) == y, found.robust)


def test_losses_of_half_precision_logits_are_compared_in_float32() -> None:
    seen = []

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen.append(logits.dtype)
        return logits.sum(dim=1)

    x = images(2).float()
    run(HalfInside(), PGD(steps=1, loss=loss), Linf("0.1"), x, said(HalfInside(), x))
    assert set(seen) == {torch.float32}


def test_a_float64_head_keeps_the_digits_that_float32_would_drop() -> None:
    model, x = DoubleHead(), images(8).float()
    y = said(model, x)
    assert (predict(model, x).float().diff(dim=1) == 0).all(), "in float32 all logits are the same"
    found = run(model, SimBA(queries=30, loss="margin"), Linf("1/10"), x, y)
    assert not found.robust.all()


def test_a_model_without_a_path_from_its_images_has_no_gradient() -> None:
    class Deaf(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[1.0, 0.0]], requires_grad=True).repeat(len(x), 1)

    x = images(2).float()
    assert run(Deaf(), PGD(steps=2), Linf("0.1"), x, torch.zeros(2, dtype=torch.int64)).robust.all()
