"""The way through the code leads to files that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.running import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.toml|\.yml|\.txt|\.json))`", TEXT)))


def test_paths_are_found() -> None:
    assert {"src/soar/threat.py", "src/soar/curvature/", "gather.py"} <= set(NAMED)


@pytest.mark.parametrize("path", NAMED)
def test_what_it_names_exists(path: str) -> None:
    # Some stand beside the file that was named before.
    places = [ROOT / path, ROOT / "src" / "soar" / path, *(ROOT / "src").rglob(path.rstrip("/"))]
    assert any(place.exists() for place in places)
