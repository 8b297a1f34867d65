from __future__ import annotations

import pytest
import torch

from soar.errors import UserError
from soar.evaluation import evaluate
from soar.threat import L2, Linf
from tests.attacks.problems import TinyNet, images, said

RADII = [Linf(0.03), Linf(0.1), Linf(0.06)]


@pytest.mark.parametrize("attacks", ["fast", "quick", "standard:steps=6,targets=2,queries=30"])
def test_the_curve_falls_and_spares_what_a_larger_ball_has_left(attacks: str) -> None:
    model, x = TinyNet(), images(40)
    labels = said(model, x)
    found = evaluate(model, (x, labels), RADII, attacks, batch_size=16)
    assert [one.threat for one in found] == RADII
    small, large, middle = found
    left = [one.survivors("worst case") for one in (small, middle, large)]
    assert 0 < left[2].sum() < left[1].sum() < left[0].sum()
    for inner, outer in ((left[0], left[1]), (left[1], left[2])):
        assert not (outer & ~inner).any(), "what is broken at a radius is broken at all larger ones"
    for one, spared in ((middle, left[2]), (small, left[1])):
        for result in one.attacks:
            assert not result.forward[spared].any() and result.robust[spared].all()


def test_a_curve_costs_less_than_its_points_and_shows_the_same() -> None:
    model, x = TinyNet(), images(40)
    labels, attacks = said(model, x), "standard:steps=6,targets=2,queries=30"
    found = evaluate(model, (x, labels), RADII, attacks)
    alone = [evaluate(model, (x, labels), one, attacks) for one in RADII]
    for one, other in zip(found, alone, strict=True):
        assert torch.equal(one.survivors("worst case"), other.survivors("worst case"))
    passes = [sum(sum(one.passes("worst case")) for one in some) for some in (found, alone)]
    assert passes[0] < 0.8 * passes[1]


def test_radii_must_differ_and_be_of_one_norm() -> None:
    model, x = TinyNet(), images(4)
    for threats in ([Linf(0.1), L2(0.1)], [Linf(0.1), Linf("1/10")]):
        with pytest.raises(UserError, match="expected different radii of one norm"):
            evaluate(model, (x, said(model, x)), threats, "fgsm")
