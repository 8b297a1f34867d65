from __future__ import annotations

import math

import pytest
import torch

from soar import randomness
from soar.evaluation.target import Target
from soar.report.sections.surfaces import highest_margin_points, measure_surfaces, random_direction
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, TinyNet, said
from tests.report.linear import away, linear_target, split_of

MIDDLE, END = 12, 18


# Signs reach the corner of a cube exactly; on a sphere 20 steps come near enough.
@pytest.mark.parametrize("threat, slack", [(Linf("0.05"), 1e-5), (L2("0.12"), 2e-3)])
def test_the_surface_of_a_linear_model_is_the_plane_that_it_should_be(threat: Threat, slack: float) -> None:
    target = linear_target(threat)
    for shown in measure_surfaces(target):
        row = shown.index - 100
        w = away(target, row)
        delta = -threat.radius * threat.ascent(w[None])[0]
        keys = randomness.key(target.seed, torch.tensor([shown.index]), "loss surface")
        if isinstance(threat, Linf):
            across = threat.radius * randomness.sign(keys, SHAPE, torch.float64)[0]
        else:
            drawn = randomness.normal(keys, SHAPE, torch.float64)[0]
            across = threat.radius * drawn / drawn.norm()
        logits = target.logits[row]
        label = int(target.labels[row])
        margin = float(logits[label] - logits[1 - label])
        for i, up in enumerate(shown.along):
            for j, right in enumerate(shown.along):
                there = margin + right * float((w * delta).sum()) + up * float((w * across).sum())
                assert shown.margin[i][j] == pytest.approx(there, rel=2e-4, abs=slack)
                assert shown.loss[i][j] == pytest.approx(math.log1p(math.exp(-there)), rel=2e-4, abs=slack)


def test_the_grid_holds_the_image_and_the_end_of_the_attack() -> None:
    target = linear_target()
    chosen = measure_surfaces(target)
    assert [one.label for one in chosen] != [] and len({one.label for one in chosen}) == len(chosen) == 2
    for shown in chosen:
        assert len(shown.along) == len(shown.margin) == len(shown.loss[0]) == 25
        assert (shown.along[0], shown.along[MIDDLE], shown.along[END], shown.along[-1]) == (-2, 0, 1, 2)
        assert shown.margin[MIDDLE][MIDDLE] > 0
        row = shown.margin[MIDDLE]
        assert list(row) == sorted(row, reverse=True), "columns run along the attack"


def test_points_stay_inside_the_pixel_range() -> None:
    """Beyond white and black nothing changes any more."""
    target = linear_target(Linf("1"))
    shown = measure_surfaces(target)[0]
    row = [shown.margin[MIDDLE][column] for column in (END, END + 1, 24)]
    assert row[0] == row[1] == row[2]


def test_the_attack_goes_toward_the_boundary_even_if_the_cross_entropy_has_no_gradient() -> None:
    """Logits so large that the softmax saturates: only the margin has a gradient."""
    target = linear_target()
    steep = TinyNet(classes=3)
    for parameter in steep.layers[-1].parameters():
        parameter.data.mul_(1e4)
    split = split_of(8)
    labels = said(steep, split.images.double() / 255)
    masked = Target(model=steep, data=type(split)(split.images, labels, split.indices), threat=target.threat)
    rows = torch.arange(8)
    delta = highest_margin_points(masked, rows, masked.threat) - masked.x[:]
    logits = masked.predict(masked.x[:] + delta)
    ahead = logits.gather(1, labels[:, None])[:, 0] - logits.scatter(1, labels[:, None], -torch.inf).amax(
        dim=1
    )
    before = masked.logits.gather(1, labels[:, None])[:, 0]
    before = before - masked.logits.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    assert bool((ahead < before).all())
    assert bool(masked.threat.contains(masked.x[:] + delta, masked.x[:]).all())


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")])
def test_random_directions_are_as_long_as_the_attack_and_belong_to_the_example(threat: Threat) -> None:
    delta = randomness.normal(randomness.key(0, torch.arange(4), "delta"), SHAPE)
    index = torch.arange(4) + 50
    drawn = random_direction(delta, threat, index, seed=1)
    assert torch.allclose(threat.norm(drawn), threat.norm(delta))
    alone = random_direction(delta[2:3], threat, index[2:3], seed=1)
    assert torch.allclose(alone[0], drawn[2])
    assert not torch.allclose(random_direction(delta, threat, index, seed=2), drawn)


def test_without_a_correctly_classified_image_there_are_no_surfaces() -> None:
    assert measure_surfaces(linear_target(count=3, wrong=3)) == ()
