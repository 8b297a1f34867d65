from __future__ import annotations

from pathlib import Path

import pytest

from soar.errors import UserError
from soar.folders import ready_folder


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert ready_folder(folder, "--output") == folder
    assert list(folder.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    ready_folder(tmp_path, "--output")
    assert (tmp_path / "kept").read_text() == "mine"


def test_a_folder_that_takes_no_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"^--cache: .*file/x cannot be written to \(Not a directory\)$"):
        ready_folder(tmp_path / "file" / "x", "--cache")
    # Linux lets nobody make files there, root included.
    with pytest.raises(UserError, match=r"^--output: /proc cannot be written to"):
        ready_folder(Path("/proc"), "--output")
