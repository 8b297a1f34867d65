"""Benchmarks are programs and not part of a package; here they are imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a benchmark anew, under its own name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)
