"""Randomized smoothing beside a linear classifier, for which everything is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.evaluation.interval import clopper_pearson
from soar.evaluation.smoothing import Smoothing, Votes
from soar.evaluation.target import Target
from soar.threat import L2


class Halfspace(nn.Module):
    """Two classes, apart by the plane w . x = b."""

    def __init__(self, normal: Tensor, offset: float) -> None:
        super().__init__()
        self.normal, self.offset = normal, offset

    def forward(self, x: Tensor) -> Tensor:
        score = x.flatten(1) @ self.normal - self.offset
        return torch.stack([score, -score], dim=1)


def votes(smoothing: Smoothing, seed: int = 0) -> tuple[Votes, Tensor]:
    """Return the votes around images and their distances to the plane."""
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(6, 1, 4, 4, generator=generator)
    normal = torch.randn(16, generator=generator)
    model = Halfspace(normal, float(x.flatten(1).mean(dim=0) @ normal))
    with torch.no_grad():
        distances = model(x)[:, 0] / normal.norm()
    y = (distances < 0).long()
    target = Target(model=model, data=(x, y), threat=L2("0.1"), seed=seed, batch_size=500)
    found: dict[int, Votes] = {}
    smoothing.vote(target, torch.arange(6), lambda rows, one: found.update({int(rows): one}))
    both = zip(*(found[row] for row in range(6)), strict=True)
    return Votes(*(torch.cat(list(part)) for part in both)), distances


def test_counts_have_the_probability_of_the_halfspace() -> None:
    smoothing = Smoothing(sigma=0.5, draws=4000)
    found, distances = votes(smoothing)
    assert torch.equal(found.predictions, (distances < 0).long())
    chance = torch.special.ndtr(distances.abs() / 0.5)
    deviation = (4000 * chance * (1 - chance)).sqrt()
    assert ((found.counts - 4000 * chance).abs() < 4.5 * deviation.clamp(min=1)).all()


def test_radii_stay_below_the_distance_to_the_plane_and_come_near() -> None:
    smoothing = Smoothing(sigma=0.5, draws=4000)
    found, distances = votes(smoothing)
    radii, exact = smoothing.radii(found.counts), distances.abs()
    assert (radii <= exact).all()
    claimed = radii > -torch.inf
    assert claimed.sum() >= 4 and (radii > exact - 0.1)[claimed].all()


def test_votes_depend_on_the_seed_alone() -> None:
    smoothing = Smoothing(draws=200)
    first, again, other = (votes(smoothing, seed)[0].counts for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_radius_is_the_published_formula() -> None:
    # Cohen et al.: all of 100,000 draws agree at alpha 0.001, so the radius is 3.8 sigma.
    radius = float(Smoothing(sigma=1.0, draws=100_000).radii(torch.tensor([100_000])))
    assert radius == pytest.approx(
        float(torch.special.ndtri(torch.tensor(0.001**1e-5, dtype=torch.float64))), rel=1e-6
    )
    assert round(radius, 1) == 3.8


def test_nothing_is_claimed_up_to_a_half() -> None:
    smoothing = Smoothing(draws=1000)
    radii = smoothing.radii(torch.arange(0, 1001, 50))
    chances = torch.tensor([clopper_pearson(count, 1000, 0.001) for count in range(0, 1001, 50)])
    assert torch.equal(radii > -torch.inf, chances > 0.5)
    assert (radii[radii > -torch.inf] > 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0.0}, "sigma: got 0.0"),
        ({"alpha": 1.0}, "alpha: got 1.0"),
        ({"alpha": float("nan")}, "alpha: got nan"),
        ({"draws": 0}, "draws"),
    ],
)
def test_what_makes_no_sense_is_an_error(options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Smoothing(**options)  # type: ignore[arg-type]
