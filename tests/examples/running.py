"""How the tests run an example: as its docstring says, in an empty folder, with smaller numbers."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import soar.evaluation  # noqa: F401 - what it registers is not forgotten with what an example does
from soar.attacks import ATTACKS
from soar.objectives import OBJECTIVES

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def source(name: str) -> Path:
    return ROOT / "examples" / f"{name}.py"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give the names of an example without running it; what it registers is forgotten after the test."""
    for registry in (ATTACKS, OBJECTIVES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    return runpy.run_path(str(source(name)))


def run(name: str, flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an example as a program."""
    for registry in (ATTACKS, OBJECTIVES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *flags])
    runpy.run_path(str(source(name)), run_name="__main__")


def shares(line: str) -> list[float]:
    """Give the percentages of a line as shares.

    >>> shares("clean 87.5%, worst case 25.0% (10% to 40%)")
    [0.875, 0.25, 0.1, 0.4]
    """
    return [round(float(number) / 100, 6) for number in re.findall(r"([\d.]+)%", line)]
