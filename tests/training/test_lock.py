from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from soar.errors import UserError
from soar.training.lock import RunLock

HOLDER = """
import sys, time
from pathlib import Path
from soar.training.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another process is training here"):
            RunLock(tmp_path).acquire()
        holder.kill()
        holder.wait()
    lock = RunLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.acquire()
    lock.release()


def test_a_file_system_without_locks_is_used_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    RunLock(tmp_path).acquire()
    RunLock(tmp_path).acquire()
    monkeypatch.undo()
    held = RunLock(tmp_path)
    held.acquire()
    with pytest.raises(UserError, match="another process is training here"):
        RunLock(tmp_path).acquire()
    held.release()
