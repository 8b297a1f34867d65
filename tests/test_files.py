from __future__ import annotations

import fcntl
import os
import re
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar import files
from soar.errors import FileError, UserError
from soar.files import clean, ready_folder, temporary_folder, write

KILLED = """
import os, signal, sys
from pathlib import Path
from soar import files

def pieces():
    yield b"half"
    if sys.argv[2] == "folder":
        with files.temporary_folder(Path(sys.argv[1])) as folder:
            (folder / "weights").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

files.write(Path(sys.argv[1]) / "file", pieces())
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(content=st.binary() | st.text() | st.lists(st.binary(max_size=10)))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes | list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("files") / "new" / "file"
    write(path, content)
    wanted = content.encode() if isinstance(content, str) else content
    assert path.read_bytes() == (wanted if isinstance(wanted, bytes) else b"".join(wanted))
    assert names(path.parent) == ["file"]


def test_permissions_are_those_of_a_new_or_of_the_old_file(tmp_path: Path) -> None:
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_text("as Python writes it")
    write(ours, "new")
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    ours.chmod(0o600)
    write(ours, "newer")
    assert (stat.S_IMODE(ours.stat().st_mode), ours.read_text()) == (0o600, "newer")


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise UserError("the contents are wrong")

    write(tmp_path / "file", "old")
    with pytest.raises(UserError, match="the contents are wrong"):
        write(tmp_path / "file", pieces())
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "old"


def test_an_error_that_is_not_about_the_file_stays_what_it_is(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the source is damaged")

    with pytest.raises(OSError, match=r"^the source is damaged$"):
        write(tmp_path / "file", pieces())
    assert names(tmp_path) == []


def test_a_file_that_must_not_be_replaced_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "recipe.toml"
    write(path, "first", overwrite=False)
    with pytest.raises(FileError, match=r"recipe.toml exists already; choose another name"):
        write(path, "second", overwrite=False)
    # Another process may have made it after we looked.
    monkeypatch.setattr(files, "_stat", lambda _: None)
    with pytest.raises(FileError, match=r"recipe.toml exists already; choose another name"):
        write(path, "second", overwrite=False)
    assert path.read_text() == "first" and names(tmp_path) == ["recipe.toml"]


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write(tmp_path / "file", "text", overwrite=False)
    assert (tmp_path / "file").read_text() == "text" and names(tmp_path) == ["file"]


def test_devices_are_written_to_and_stay_devices() -> None:
    for device in ("/dev/null", "/dev/full"):
        before = os.stat(device)
        assert stat.S_ISCHR(before.st_mode)
        if device == "/dev/null":
            write(device, "gone")
        else:
            with pytest.raises(FileError, match=r"^/dev/full: cannot be written \(No space left on device\)"):
                write(device, "too much")
        after = os.stat(device)
        assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)


def test_standard_output_can_be_the_file() -> None:
    program = "from soar.files import write; write('/dev/stdout', 'through the pipe')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "through the pipe"


def test_a_pipe_is_written_to_if_somebody_reads(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileError, match="pipe: cannot be written"):
        write(pipe, "nobody listens")
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    heard: list[bytes] = []

    def listen() -> None:
        while piece := os.read(descriptor, 1 << 16):
            heard.append(piece)

    # The pipe is empty at first, so a reader that starts at once would see its end.
    kept_open = os.open(pipe, os.O_WRONLY)
    thread = threading.Thread(target=listen)
    thread.start()
    write(pipe, b"x" * 1_000_000)
    os.close(kept_open)
    thread.join()
    os.close(descriptor)
    assert len(b"".join(heard)) == 1_000_000
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_links_are_followed_and_stay_links(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name, target in (("link", "there/file"), ("chain", "link")):
        (tmp_path / name).symlink_to(target)
        write(tmp_path / name, name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / "file").read_text() == name
    assert names(tmp_path / "there") == ["file"]


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be written"):
        write(tmp_path, "text")


@pytest.mark.parametrize("name", ["x" * 300, "null\0byte"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="cannot be written"):
        write(tmp_path / name, "text")


def test_a_long_name_leaves_room_for_the_temporary_file(tmp_path: Path) -> None:
    write(tmp_path / ("x" * 255), "text")
    assert (tmp_path / ("x" * 255)).read_text() == "text"


def test_a_prepared_temporary_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".soar-known.tmp").symlink_to("precious")
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(["known", "unknown"]))
    write(tmp_path / "file", "text")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / ".soar-known.tmp").is_symlink()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, kind: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), kind], check=False)
    assert done.returncode < 0 and len(names(tmp_path)) == (1 if kind == "file" else 2)
    write(tmp_path / "file", "whole")
    assert names(tmp_path) == ["file"]


def test_what_is_being_written_is_not_removed(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one "
        clean(tmp_path)
        with temporary_folder(tmp_path) as folder:
            clean(tmp_path)
            assert folder.is_dir()
        yield b"two"

    write(tmp_path / "file", pieces())
    assert (tmp_path / "file").read_bytes() == b"one two"
    assert names(tmp_path) == ["file"]


def test_a_temporary_folder_that_was_removed_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, calls = fcntl.flock, []

    def remove_first(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            next(tmp_path.iterdir()).rmdir()
        locked(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with temporary_folder(tmp_path) as folder:
        assert folder.is_dir() and len(calls) == 2
    assert names(tmp_path) == []


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert ready_folder(folder, "--output") == folder
    assert names(folder) == []


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


# What writes by itself, and why: this module, logs that grow, unfinished downloads, and a counter of Linux.
WRITERS = {"files.py", "evaluation/journal.py", "training/tracking.py", "data/download.py", "cost/step.py"}


def test_nothing_else_in_the_package_writes_files() -> None:
    writes = re.compile(r"\.write_(text|bytes)\(|open\(([^)]*, )?\"[wax]|savefig\(path|save_file\(")
    source = Path(files.__file__).parent
    found = [path for path in source.rglob("*.py") if writes.search(path.read_text())]
    assert {str(path.relative_to(source)) for path in found} <= WRITERS
