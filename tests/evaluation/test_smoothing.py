from __future__ import annotations

from pathlib import Path

import pytest
import torch

from soar.errors import UserError
from soar.evaluation.certify import certify
from soar.evaluation.interval import clopper_pearson
from soar.evaluation.smoothing import Smoothing
from soar.evaluation.target import Target
from soar.threat import L2
from tests.attacks.problems import images, said
from tests.evaluation.test_certify import distances, linear
from tests.evaluation.test_evaluate import Fragile


def test_votes_on_a_linear_model_follow_its_distances() -> None:
    """Noise crosses a hyperplane at distance d with probability Phi(-d / sigma), so p is Phi(d / sigma)."""
    model, x = linear(classes=2), images(30)
    labels = said(model, x)
    method, target = Smoothing(sigma=0.5, draws=2000), Target(model=model, data=(x, labels), threat=L2(0.1))
    far = distances(model, x, labels, dual=2)
    expected = torch.special.ndtr(far / method.sigma)
    votes = [method.vote(target, row) for row in range(len(x))]
    counts = torch.stack([one.counts for one in votes])
    chosen = torch.stack([one.predictions for one in votes]) == labels
    assert chosen[expected > 0.75].all()
    error = (expected * (1 - expected) / method.draws).sqrt()
    assert ((counts / method.draws - expected).abs() < 4.5 * error)[chosen].all()
    # The radius is sigma Phi^-1 of a lower bound of p, so below the distance, and not far below.
    radii = method.radii(counts)
    assert (radii < far)[chosen].all()
    assert (radii > far - 0.15)[chosen & (expected > 0.7) & (expected < 0.98)].all()


def test_what_is_certified_is_correct_and_within_the_distance(tmp_path: Path) -> None:
    model, x = linear(classes=2), images(30)
    labels = said(model, x)
    labels[::5] = 1 - labels[::5]
    far = distances(model, x, labels, dual=2)
    radii = [L2(0.3), L2(0.1)]
    task = (x, labels), radii, "smoothing:sigma=0.5,draws=300"
    found = certify(model, *task)
    for one, threat in zip(found, radii, strict=True):
        assert one.is_smoothed and (far[one.certified] > threat.radius).all()
    assert 0 < found[0].certified.sum() < found[1].certified.sum() < found[1].correct.sum() + 1
    small = certify(model, *task, batch_size=7)
    assert torch.equal(small[0].certified, found[0].certified)
    flipped = certify(model, (x[3:9], labels[3:9]), radii, task[2])
    assert len(flipped[0]) == 6
    journal = tmp_path / "votes.jsonl"
    with pytest.raises(KeyboardInterrupt):
        certify(Fragile(model, 60), *task, journal=journal)
    counted = Fragile(model, 10**9)
    again = certify(counted, *task, journal=journal)
    whole = Fragile(model, 10**9)
    certify(whole, *task)
    assert counted.calls > whole.calls
    assert torch.equal(again[0].certified, found[0].certified)


def test_another_seed_draws_other_noise() -> None:
    model, x = linear(classes=2), images(1)
    method = Smoothing(sigma=2.0, draws=1000)
    votes = [
        int(method.vote(Target(model=model, data=(x, said(model, x)), threat=L2(1), seed=seed), 0).counts)
        for seed in range(4)
    ]
    assert len(set(votes)) > 1


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
