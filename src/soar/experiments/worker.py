"""Do one job: in this process, or in one of its own by `python -m soar.experiments.worker JOB.json`."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from soar.errors import UserError
from soar.experiments.cache import Cache, Log
from soar.experiments.jobs import Job
from soar.experiments.training import train

_FULL = (errno.ENOSPC, errno.EDQUOT)


def perform(job: Job, log: Log) -> None:
    """Do a job in this process; what is in the cache already is not done again.

    Args:
        job: what to do
        log: takes lines of progress

    Raises:
        UserError: why it cannot be done, in one line
        KeyboardInterrupt: when a signal asked to stop, with the signal's name; the same job goes on later
    """
    with _progress_logged(log):
        try:
            if job.kind == "train":
                train(job.key, job.payload, log)
            else:
                _measure(job, log)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            where = error.filename or job.payload["cache"]
            raise UserError(
                f"no room to write {where}: {error.strerror}; make room and start again"
            ) from None


def as_text(job: Job) -> str:
    """Write a job as JSON, for another process."""
    return json.dumps(asdict(job))


def from_text(text: str) -> Job:
    """Read a job.

    Raises:
        UserError: if it is not one
    """
    try:
        table = json.loads(text)
        return Job(**{**table, "needs": tuple(table["needs"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"got something that is not a job ({error})") from None


def main(arguments: Sequence[str]) -> int:
    """Do the job of a file, with progress on standard output and a mistake as one line on standard error.

    Args:
        arguments: the file, or - for standard input

    Returns:
        0 when it is done, 2 for a mistake of the user's, 128 + n for signal n.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if len(arguments) != 1:
            raise UserError("expected one file: python -m soar.experiments.worker JOB.json")
        perform(from_text(_read(arguments[0])), _print)
    except UserError as error:
        print(f"soar: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        return 128 + (signal.SIGTERM if "SIGTERM" in interrupt.args else signal.SIGINT)
    return 0


def _measure(job: Job, log: Log) -> None:
    from soar.evaluation.journal import remove_journals
    from soar.experiments.measure import measure

    cache = Cache(Path(job.payload["cache"]))
    with cache.reserved(job.key, log):
        if cache.load_result(job.key) is not None:
            return
        for key in (job.payload["network"], *job.payload.get("sources", {}).values()):
            _refuse_unless_whole(cache, key)
        found = measure(job.payload, log)
        if not math.isfinite(found["value"]):
            raise UserError(f"got {found['value']} for a result, expected a finite number")
        cache.save_result(job.key, found)
        remove_journals(cache.journal(job.key))


def _refuse_unless_whole(cache: Cache, key: str) -> None:
    """Measure only networks whose training has ended well; one that a user brings is not in the cache."""
    condition = cache.condition(key) if key else None
    if condition is not None and condition.name not in ("trained", "absent"):
        raise UserError(f"the network {cache.network(key)} is {condition}")


class _Lines(io.TextIOBase):
    """Passes every whole line written to it to a function."""

    def __init__(self, log: Log) -> None:
        self._log, self._rest = log, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.strip():
                self._log(line.strip())
        return len(text)


@contextmanager
def _progress_logged(log: Log) -> Iterator[None]:
    """Log progress, which goes to standard error, and warnings like everything else."""

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        log(f"warning: {message}")

    with redirect_stderr(_Lines(log)), warnings.catch_warnings():
        warnings.showwarning = warn
        yield


def _print(line: str) -> None:
    """Write a line; when no process reads it any more, ask this process to save its work and stop."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        os.kill(os.getpid(), signal.SIGTERM)


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: cannot be read ({error})") from None


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
