from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from soar.errors import FileError, UserError
from soar.locks import lock, reservation, reserved, run_lock

HOLDER = """
import sys, time
from pathlib import Path
from soar.locks import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another process is training here"), run_lock(tmp_path):
            pass
        holder.kill()
        holder.wait()
    for _ in range(2):
        with run_lock(tmp_path):
            pass
    assert not list(tmp_path.iterdir()), "no lock file is left"


def test_a_file_system_without_locks_is_used_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with run_lock(tmp_path), run_lock(tmp_path):
        monkeypatch.undo()
    with (
        run_lock(tmp_path),
        pytest.raises(UserError, match="another process is training here"),
        run_lock(tmp_path),
    ):
        pass


def test_a_lock_file_that_was_removed_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, locked = ExitStack(), fcntl.flock
    first.enter_context(run_lock(tmp_path))

    def release_first(descriptor: int, operation: int) -> None:
        # The second has opened the file; now the first removes it and goes.
        monkeypatch.undo()
        first.close()
        locked(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", release_first)
    with run_lock(tmp_path), pytest.raises(UserError, match="another process"), run_lock(tmp_path):
        pass


def test_a_lock_is_waited_for_if_there_is_somebody_to_tell(tmp_path: Path) -> None:
    order: list[str] = []
    held = threading.Event()

    def hold() -> None:
        with lock(tmp_path / ".lock", "busy"):
            held.set()
            assert said.wait(10)
            order.append("first")

    said = threading.Event()

    def say(line: str) -> None:
        order.append(line)
        said.set()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    with lock(tmp_path / ".lock", "busy", say):
        order.append("second")
    holder.join(10)
    assert order == ["busy; waiting for it", "first", "second"]
    assert not list(tmp_path.iterdir())


def test_a_lock_where_nothing_can_be_written_is_one_line() -> None:
    with pytest.raises(FileError, match=r"^/proc/none: cannot be written \("), run_lock(Path("/proc/none")):
        pass
    with pytest.raises(FileError, match=r"cannot be written \(embedded null byte\)$"), run_lock(Path("a\0b")):
        pass


def test_names_that_are_reserved_differ(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("mine")
    with reserved("result", tmp_path, ".json") as one, reserved("result", tmp_path, ".json") as two:
        assert (one.name, two.name) == ("result-2.json", "result-3.json")
        message = r"result-2.json: another process is writing it; wait for it"
        with pytest.raises(UserError, match=message), reservation(one):
            pass
    with reserved("result", tmp_path, ".json") as again:
        assert again == one, "what nobody wrote is free again"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_name_is_passed_over_if_it_was_written_before_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = fcntl.flock

    def write_first(descriptor: int, operation: int) -> None:
        (tmp_path / "result.json").write_text("another's")
        locked(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", write_first)
    with reserved("result", tmp_path, ".json") as path:
        assert path.name == "result-2.json"


def test_a_folder_that_takes_no_files_does_not_search_for_ever() -> None:
    with pytest.raises(FileError, match="cannot be written"), reserved("result", Path("/proc"), ".json"):
        pass
