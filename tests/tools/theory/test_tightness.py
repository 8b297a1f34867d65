from __future__ import annotations

import math

import pytest
import torch
from tools.figures.command import show_all

from tests.tools.figures.made import quadratic_network
from tools.theory import derivation
from tools.theory import tightness as tables


def example(scale: float, norms: list[float]) -> derivation.Tightness:
    """Make up an example in which the k-th quantity is k + 1 times the scale."""
    names = [
        *(derivation.SHOWN, derivation.LOSS, derivation.LOSS_L2, derivation.FIRST, derivation.SECOND),
        *(derivation.SECOND_L2, derivation.SPECTRAL, derivation.FROBENIUS, derivation.CORNER_FREE),
        *(derivation.EXPECTED, derivation.CORRECTED),
    ]
    samples = torch.tensor(norms).double()
    return derivation.Tightness(
        gains={name: scale * (place + 1) for place, name in enumerate(names)},
        norms={derivation.EXACT: samples, "h 0.01": 5 * samples, "h 0.5": 2 * samples},
        stable_rank=scale,
    )


EXAMPLES = [example(1.0, [1.0] * 6 + [3.0] * 6), example(3.0, [2.0] * 12)]


def test_means_over_samples_are_turned_into_bounds() -> None:
    gains = tables.all_gains(EXAMPLES, radius=3.0)
    assert gains["1 z, printed"].tolist() == [5 * 1 - 0.5, 5 * 2 - 0.5]
    assert gains["12 z, printed"].tolist() == [5 * 2 - 0.5, 5 * 2 - 0.5]
    root = math.sqrt(math.pi / 2)
    assert gains["12 z, corrected"].tolist() == pytest.approx([10 * root - 0.5] * 2)
    assert gains["12 z, mean square"].tolist() == pytest.approx([5 * math.sqrt(5) - 0.5, 9.5])
    assert gains["12 z, h 0.01"].tolist() == pytest.approx([49.5, 49.5])


def test_quantities_have_sizes_and_say_what_they_bound() -> None:
    rows = tables.quantities(tables.all_gains(EXAMPLES, radius=3.0))
    found = {row["rise above the loss"]: row for row in rows}
    loss = found[derivation.LOSS]
    assert loss["how"] == "found" and loss["median"] == loss["mean"] == 4
    assert loss["bounds attack"] == "100%" and loss["bounds second order"] == "0%"
    assert found[derivation.SPECTRAL]["how"] == "exact"
    # 4.5 and 9.5 beside second orders of 5 and 15, and attacks of 1 and 3.
    assert found["1 z, printed"]["bounds second order"] == "0%"
    assert found["12 z, printed"]["bounds second order"] == "50%"
    assert found["12 z, printed"]["how"] == "sampled"


def test_steps_are_ratios() -> None:
    gains = tables.all_gains(EXAMPLES, radius=3.0)
    found = {row["step"]: row for row in tables.steps_of(gains, EXAMPLES)}
    assert found["second order, l2 / linf"]["median ratio"] == pytest.approx(6 / 5)
    assert found["Frobenius / spectral"]["ratio of means"] == pytest.approx(8 / 7)
    assert found["||Hz|| by difference, h 0.01 / exact"]["median ratio"] == pytest.approx(5)


def test_the_spread_falls_with_the_root_of_the_number_of_samples() -> None:
    rows = tables.spread(EXAMPLES)
    assert [row["z"] for row in rows] == [1, 10, 12]
    deviation = math.sqrt(12 / 11) / 2
    assert rows[0]["largest deviation"] == pytest.approx(deviation)
    assert rows[1]["median deviation"] == pytest.approx(deviation / 2 / math.sqrt(10))


def test_the_report_names_what_was_measured() -> None:
    sections, gains = tables.measure(quadratic_network(0.1, 0.7), samples=2, start="pgd-1", mode="quiet")
    text = show_all(sections)
    title = "quadratic: 3 images of gray, linf 0.05 around a pgd-1 point, half of linf 0.1 away, d 4, rho 0.1"
    assert text.splitlines()[0] == title
    assert "median stable rank of H 1\n" in text
    assert len(gains[derivation.LOSS]) == 3
