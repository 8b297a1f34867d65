"""Do one job: in this process, or in one of its own by `python -m soar.experiments.worker < JOB.json`."""

from __future__ import annotations

import io
import math
import os
import signal
import sys
import warnings
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TextIO

import msgspec

from soar.errors import UserError, printable, reason_of
from soar.experiments.cache import Cache, Log
from soar.experiments.jobs import Job
from soar.experiments.training import train


def perform(job: Job, log: Log) -> None:
    """Do a job in this process; what is in the cache already is not done again.

    Args:
        job: what to do
        log: takes lines of progress

    Raises:
        UserError: why it cannot be done, in one line
        KeyboardInterrupt: when a signal asked to stop, with the signal's name; the same job goes on later
    """
    if job.kind == "train":
        train(job.key, job.payload, log)
    else:
        _measure(job, log)


def main() -> int:
    """Do the job on standard input, with progress on standard output and a mistake as one line on error.

    Returns:
        0 when it is done, 2 for a mistake of the user's, 128 + n for signal n.
    """
    for number in (signal.SIGTERM, getattr(signal, "SIGBREAK", signal.SIGTERM)):
        signal.signal(number, _interrupt)
    output = _Output(sys.stdout)
    log = partial(print, file=output)
    warnings.showwarning = lambda message, *_: log(f"warning: {message}")
    try:
        with redirect_stderr(output):
            perform(msgspec.json.decode(sys.stdin.read(), type=Job), log)
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        # Most often a full disk.
        where = f"{error.filename}: " if error.filename else ""
        print(f"soar: {printable(where + reason_of(error))}; the same command goes on", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interrupt:
        return 128 + (signal.SIGTERM if {"SIGTERM", "SIGBREAK"} & {*interrupt.args} else signal.SIGINT)
    return 0


def _measure(job: Job, log: Log) -> None:
    from soar.evaluation.journal import remove_journals
    from soar.experiments.measure import measure

    cache = Cache(Path(job.payload["cache"]))
    with cache.reserved(job.key, log):
        if cache.load_result(job.key) is not None:
            return
        for key in (job.payload["network"], *job.payload.get("sources", {}).values()):
            # One that a user brings is not in the cache.
            condition = cache.condition(key) if key else None
            if condition is not None and condition.name not in ("trained", "absent"):
                raise UserError(f"the network {cache.network(key)} is {condition}")
        found = measure(job.payload, log)
        if not math.isfinite(found["value"]):
            raise UserError(f"got {found['value']} for a result, expected a finite number")
        cache.save_result(job.key, found)
        remove_journals(cache.journal(job.key))


class _Output(io.TextIOBase):
    """Writes on; when no process reads it any more, asks this process to save its work and stop."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            signal.raise_signal(signal.SIGTERM)
        return len(text)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    raise SystemExit(main())
