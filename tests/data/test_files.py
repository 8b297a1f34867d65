import gzip
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soar.data.files import File, check_memory, find, memory_limit, open_regular, place, state
from soar.errors import UserError

CONTENTS = b"contents of a file"
FILE = File("name", len(CONTENTS), hashlib.md5(CONTENTS).hexdigest())


def test_place_writes_the_file_and_nothing_else(tmp_path: Path) -> None:
    place(tmp_path, FILE, [CONTENTS[:5], CONTENTS[5:]])
    assert (tmp_path / "name").read_bytes() == CONTENTS
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_place_refuses_wrong_contents_and_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"old")
    with pytest.raises(UserError, match=r"name: wrong contents, md5 is .*, published is "):
        place(tmp_path, FILE, [b"something elsewhere"[: FILE.size]])
    assert (tmp_path / "name").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_place_leaves_nothing_when_interrupted(tmp_path: Path) -> None:
    def interrupted() -> Iterator[bytes]:
        yield CONTENTS[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place(tmp_path, FILE, interrupted())
    assert list(tmp_path.iterdir()) == []


def test_state_of_a_plain_file(tmp_path: Path) -> None:
    assert state(tmp_path, FILE) == "missing"
    (tmp_path / "name").write_bytes(CONTENTS)
    assert state(tmp_path, FILE) == "ok"
    (tmp_path / "name").write_bytes(CONTENTS[:-1])
    assert state(tmp_path, FILE) == "damaged"


def test_state_of_a_compressed_file_is_that_of_its_contents(tmp_path: Path) -> None:
    packed = gzip.compress(CONTENTS, mtime=1)
    (tmp_path / "name.gz").write_bytes(packed)
    assert state(tmp_path, FILE) == "ok"
    (tmp_path / "name.gz").write_bytes(packed[:-9])
    assert state(tmp_path, FILE) == "damaged"
    (tmp_path / "name.gz").write_bytes(gzip.compress(CONTENTS + b"x", mtime=0))
    assert state(tmp_path, FILE) == "damaged"


def test_the_plain_file_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "name.gz").write_bytes(b"")
    assert find(tmp_path, "name") == tmp_path / "name.gz"
    (tmp_path / "name").write_bytes(b"")
    assert find(tmp_path, "name") == tmp_path / "name"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (CONTENTS[:-1], "17 of the 18 bytes that were published"),
        (CONTENTS + b"x", "more than the 18 bytes that were published"),
        (b"", "0 of the 18 bytes that were published"),
    ],
)
def test_place_refuses_another_size(tmp_path: Path, contents: bytes, message: str) -> None:
    with pytest.raises(UserError, match=f"name: wrong contents, {message}"):
        place(tmp_path, FILE, [contents])
    assert list(tmp_path.iterdir()) == []


def test_place_ends_with_the_first_byte_too_much(tmp_path: Path) -> None:
    asked: list[None] = []

    def endless() -> Iterator[bytes]:
        while True:
            asked.append(None)
            yield CONTENTS

    with pytest.raises(UserError, match="more than the 18 bytes"):
        place(tmp_path, FILE, endless())
    assert len(asked) == 2


def test_place_removes_what_a_killed_process_has_left(tmp_path: Path) -> None:
    left = tmp_path / ".soar-0123456789abcdef.tmp"
    left.mkdir()
    (left / "file").write_bytes(b"unfinished")
    place(tmp_path, FILE, [CONTENTS])
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_state_of_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "name")
    assert state(tmp_path, FILE) == "missing"


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
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "name").write_bytes(CONTENTS)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"name: cannot be read \(Permission denied\)$"):
        open_regular(tmp_path / "name", 100)


def test_half_of_the_memory_may_be_taken() -> None:
    check_memory(memory_limit(), "file")
    with pytest.raises(UserError, match=r"^file: announces \d+ bytes of data, allowed are \d+, half of"):
        check_memory(memory_limit() + 1, "file")
