from __future__ import annotations

import json
from pathlib import Path

import pytest

from soar.errors import UserError
from soar.experiments import table_file
from tests.experiments.made import result


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = result(seconds=12.5, environment={"cores": 2, "gpu": None})
    table_file.save(written, tmp_path / "deep" / "t.json")
    read = table_file.load(tmp_path / "deep" / "t.json")
    assert read == written
    right = read.rows["ResNet / ADV"]["PGD20"].right
    assert right is not None and right.tolist() == [True, False]
    assert read.rows["ResNet / ADV"]["Standard"].right is None
    assert list(read.rows) == list(written.rows), "rows keep their order"


@pytest.mark.parametrize(
    "change, message",
    [
        (("seeds", 0), "damaged reproduced table"),
        (("rows", {"a": {"b": {"values": ["x"]}}}), "damaged reproduced table"),
        (("rows", {"a": {"b": {"right": "01x"}}}), "damaged reproduced table"),
        (("more", 1), "damaged reproduced table"),
        (("format", 2), "got version 2"),
        (("kind", "assessment"), "got an assessment"),
    ],
)
def test_damaged_files_get_one_line(tmp_path: Path, change: tuple[str, object], message: str) -> None:
    path = tmp_path / "t.json"
    table_file.save(result(), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {change[0]: change[1]}))
    with pytest.raises(UserError, match=message) as caught:
        table_file.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_ends_early_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    table_file.save(result(), path)
    path.write_text(path.read_text()[:200])
    with pytest.raises(UserError, match="damaged or not JSON"):
        table_file.load(path)


def test_a_place_that_cannot_be_written_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"t\.json: cannot be written \(Not a directory\)$"):
        table_file.save(result(), tmp_path / "file" / "t.json")
