"""Numbers of the theory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from soar.experiments.measuring.measurements import measure

from soar.experiments.planning.experiments import experiment
from soar.experiments.planning.scales import SCALES


def test_every_row_has_a_number_and_those_of_proposition_1_are_exact() -> None:
    found = {}
    for row in experiment("theory", SCALES["small"]).rows:
        one = row.columns["value"]
        payload = {
            "network": "",
            "measurement": {"kind": one.kind, "options": one.options},
            "examples": 0,
            "seed": 0,
            "sources": {},
            "cache": str(Path()),
        }
        found[row.name] = measure(payload)["value"]
    assert all(math.isfinite(value) for value in found.values())
    printed, corrected = (value for name, value in found.items() if name.startswith("Proposition 1"))
    # 1/2 (rho^2 + 1)^2 is the maximum; the bounds are sqrt(2/pi) of it and all of it, each with l and -1/2.
    assert printed == pytest.approx(math.sqrt(2 / math.pi), abs=1e-3)
    assert corrected == pytest.approx(1.0, abs=1e-9)
    second = next(value for name, value in found.items() if "second-order" in name)
    assert second == pytest.approx(1.0, abs=1e-12)
    faded = next(value for name, value in found.items() if "penalty with 16 times" in name)
    assert faded < 1e-9
