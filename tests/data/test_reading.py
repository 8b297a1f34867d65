import gzip
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soar.data import reading
from soar.data.reading import check_memory, memory_limit, open_regular, read_bytes
from soar.errors import UserError

CONTENTS = b"contents of a file"


def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(CONTENTS)
    (tmp_path / "name.gz").write_bytes(gzip.compress(CONTENTS, mtime=0))
    for name in ("name", "name.gz"):
        assert read_bytes(tmp_path / name, len(CONTENTS)) == CONTENTS
        with pytest.raises(UserError, match=r"(18 bytes, allowed are at most 17|more than the 17 bytes)"):
            read_bytes(tmp_path / name, len(CONTENTS) - 1)


@pytest.mark.parametrize("contents", [b"not gzip", gzip.compress(CONTENTS, mtime=0)[:-9]])
def test_reading_a_damaged_gzip_file_is_the_users_error(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "name.gz").write_bytes(contents)
    with pytest.raises(UserError, match=r"name\.gz: damaged gzip file"):
        read_bytes(tmp_path / "name.gz", 100)


def test_a_packed_file_may_be_only_a_little_longer_than_its_contents(tmp_path: Path) -> None:
    with (tmp_path / "name.gz").open("wb") as stream:
        stream.truncate(reading.SLACK + 101)
    with pytest.raises(
        UserError, match=f"{reading.SLACK + 101} bytes, allowed are at most {reading.SLACK + 100}"
    ):
        read_bytes(tmp_path / "name.gz", 100)


def make(path: Path, kind: str) -> None:
    """Put something else than a regular file there."""
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path.symlink_to({"device": "/dev/zero", "loop": path.name}[kind])


@contextmanager
def short_name(path: Path) -> Iterator[Path]:
    """Name a path through its folder's descriptor: the address of a socket may have only 108 characters."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}") / path.name
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device", "loop", "nothing"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    with short_name(tmp_path / "name") as path:
        make(path, kind)
    with pytest.raises(UserError, match=r"name: (not a regular file|cannot be read \(.+\))$"):
        open_regular(tmp_path / "name", 100)


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "name").write_bytes(CONTENTS)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UserError, match=r"name: cannot be read \(Permission denied\)$"):
        open_regular(tmp_path / "name", 100)


def test_a_name_that_becomes_a_pipe_after_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    found = os.stat(tmp_path / "file")
    monkeypatch.setattr(os, "stat", lambda *_, **__: found)
    with pytest.raises(UserError, match=r"pipe: not a regular file$"):
        open_regular(tmp_path / "pipe", 100)


def test_half_of_the_memory_may_be_taken() -> None:
    check_memory(memory_limit(), "file")
    with pytest.raises(UserError, match=r"^file: announces \d+ bytes of data, allowed are \d+, half of"):
        check_memory(memory_limit() + 1, "file")
