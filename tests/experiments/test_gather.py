from __future__ import annotations

from pathlib import Path

from soar.experiments.cache import Cache
from soar.experiments.gather import gather
from soar.experiments.loading import load

ROOT = Path(__file__).parents[2]


def test_what_training_itself_has_written_is_not_of_so_many_test_images(tmp_path: Path) -> None:
    searched = load(str(ROOT / "benchmarks" / "frontier_search.toml"))
    assert gather(searched, Cache(tmp_path)).examples == 0
    assert gather(load("frontier", examples=300), Cache(tmp_path)).examples == 300
