"""Scales: how many images, and what limits an attack."""

from __future__ import annotations

import pytest
from soar.experiments.planning.scales import SCALES, scale

from soar.errors import UserError


def test_attacks_that_only_ask_get_fewer_images() -> None:
    assert [SCALES["small"].examples_for(one) for one in ("pgd", "simba", "square")] == [500, 200, 200]
    assert [SCALES["paper"].examples_for(one) for one in ("pgd", "simba", "square")] == [10_000, 1000, 10_000]
    assert SCALES["smoke"].examples_for("square") == 8


@pytest.mark.parametrize("name", ["small", "paper"])
def test_only_tests_are_limited(name: str) -> None:
    options = {"steps": 1000, "restarts": 50, "queries": 5000}
    assert SCALES[name].limited(options) == options
    assert SCALES["smoke"].limited(options) == {"steps": 2, "restarts": 2, "queries": 5}


def test_every_scale_says_how_it_differs() -> None:
    words = {"smoke": "mean nothing", "small": "45,000 training images", "paper": "held out"}
    for name, text in words.items():
        assert text in SCALES[name].caution


def test_an_unknown_scale_is_a_mistake_of_one_line() -> None:
    with pytest.raises(UserError, match=r"smal.*--scale.*small"):
        scale("smal")
