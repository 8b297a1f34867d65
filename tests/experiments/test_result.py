from __future__ import annotations

import json
from pathlib import Path

import pytest

from soar.errors import UserError
from soar.experiments.result import Result
from tests.experiments.made import result


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = result(seconds=12.5, environment={"cores": 2, "gpu": None})
    written.save(tmp_path / "deep" / "t.json")
    read = Result.load(tmp_path / "deep" / "t.json")
    assert read == written
    correct = read.rows["ResNet / ADV"]["PGD20"].flags
    assert correct is not None and correct.tolist() == [True, False]
    assert read.rows["ResNet / ADV"]["Standard"].flags is None
    assert list(read.rows) == list(written.rows), "rows keep their order"


@pytest.mark.parametrize(
    "change, message",
    [
        (("seeds", 0), "damaged experiment"),
        (("rows", {"a": {"b": {"values": ["x"]}}}), "damaged experiment"),
        (("rows", {"a": {"b": {"correct": "01x"}}}), "damaged experiment"),
        (("more", 1), "damaged experiment"),
        (("format", 1), "got version 1"),
        (("kind", "assessment"), "got an assessment"),
    ],
)
def test_damaged_files_get_one_line(tmp_path: Path, change: tuple[str, object], message: str) -> None:
    path = tmp_path / "t.json"
    result().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {change[0]: change[1]}))
    with pytest.raises(UserError, match=message) as caught:
        Result.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_ends_early_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    result().save(path)
    path.write_text(path.read_text()[:200])
    with pytest.raises(UserError, match="damaged or not JSON"):
        Result.load(path)


def test_a_place_that_cannot_be_written_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"t\.json: cannot be written \(Not a directory\)$"):
        result().save(tmp_path / "file" / "t.json")
