from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from soar.attacks import FGSM, PGD, Outcomes
from soar.evaluation.interval import wilson
from soar.evaluation.target import Target
from soar.report.sections.radius import BreakingRadii, accuracy_curves, breaking_radii, threats
from soar.threat import L2, Linf, Threat
from tests.report.linear import linear_target


class Stop(Exception):
    """Interrupts a measurement."""


@pytest.mark.parametrize("threat, dual", [(Linf("0.05"), 1), (L2("0.12"), 2)])
def test_a_linear_model_breaks_exactly_where_its_margin_ends(threat: Threat, dual: int) -> None:
    target = linear_target(threat, count=40)
    found = breaking_radii(target, [FGSM(), PGD(steps=20, loss="margin")])
    far = target.model.distances(target.x, target.y, dual=dual)  # type: ignore[operator]
    radii = torch.tensor([one.radius for one in threats(threat)])
    expected = torch.where(target.correct, 1 + (radii[None] < far[:, None]).sum(dim=1), 0)
    assert found.at["PGD-20 margin"] == tuple(expected.tolist())
    assert found.at["FGSM"] == tuple(expected.tolist()) == found.first
    assert len(set(expected.tolist())) >= 5, "the examples tell radii apart"
    assert found.radii == 9 and expected.max() <= 9


def test_curves_count_what_holds_and_put_the_worst_case_last() -> None:
    found = BreakingRadii(radii=3, tried={"A": 3, "B": 3}, at={"A": (0, 1, 3, 3), "B": (0, 2, 2, 3)})
    # Radii beyond 1 do not exist for linf, so that 0.5 and 1 are what is left of many.
    threat = Linf("1")
    a, b, worst = accuracy_curves(replace(found, radii=5), threat)
    assert [a.label, b.label, worst.label] == ["A", "B", "worst case"]
    assert a.x == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert a.y[:3] == (0.75, 0.5, 0.5) and b.y[:3] == (0.75, 0.75, 0.25)
    assert worst.y[:3] == (0.75, 0.5, 0.25)
    assert (worst.low[1], worst.high[1]) == wilson(2, 4)


def test_radii_hold_eps_itself_and_end_where_every_image_is_allowed() -> None:
    assert Linf("8/255") in threats(Linf("8/255"))
    assert [str(one) for one in threats(L2("2"))][::7] == ["l2 0.5", "l2 4"]
    assert [str(one) for one in threats(Linf("0.8"))][-2:] == ["linf 0.8", "linf 1"]


def test_an_interrupted_measurement_goes_on_and_ends_alike() -> None:
    attacks = [FGSM(), PGD(steps=3)]
    whole = breaking_radii(linear_target(), attacks)
    kept: list[BreakingRadii] = []

    def interrupt(found: BreakingRadii) -> None:
        kept.append(found)
        if len(kept) == 11:
            raise Stop

    with pytest.raises(Stop):
        breaking_radii(linear_target(), attacks, keep=interrupt)
    assert kept[-1].tried == {"FGSM": 9, "PGD-3": 4}
    again: list[BreakingRadii] = []
    assert breaking_radii(linear_target(), attacks, known=kept[-1], keep=again.append) == whole
    assert len(again) == 2 * 8 - 11
    nothing: list[BreakingRadii] = []
    assert breaking_radii(linear_target(), attacks, known=whole, keep=nothing.append) == whole
    assert not nothing


def test_what_broke_is_not_attacked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    target = linear_target()
    sizes: list[int] = []
    attack = target.attack

    def count(_: Target, recipe: FGSM, *, threat: Threat, rows: torch.Tensor) -> Outcomes:
        sizes.append(len(rows))
        return attack(recipe, threat=threat, rows=rows)

    monkeypatch.setattr(Target, "attack", count)
    found = breaking_radii(target, [FGSM()])
    held = [sum(at > position for at in found.first) for position in range(8)]
    assert sizes == held


def test_a_model_that_is_always_wrong_has_curves_at_zero() -> None:
    target = linear_target(count=4, wrong=4)
    assert {
        y for curve in accuracy_curves(breaking_radii(target, [FGSM()]), target.threat) for y in curve.y
    } == {0.0}
