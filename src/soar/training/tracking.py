"""Destinations of metrics: `metrics.jsonl` is the record, TensorBoard and W&B are views of it."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec

from soar import files
from soar.errors import FileError, UserError, reason_of, unknown

METRICS = "metrics.jsonl"
"""the file of a run folder that holds a row for every update and every validation"""

Row = Mapping[str, float | str]


class Sink(Protocol):
    """A destination of metrics."""

    def log(self, step: int, row: Row) -> None:
        """Write the metrics of one step."""

    def close(self) -> None:
        """Flush and close."""


class MetricsFile:
    """The file `metrics.jsonl` of a run: one JSON object per line, written at once.

    On a full disk, rows wait in memory until they can be written: training goes on.

    Args:
        run: the run folder
        rows: how many rows of an existing file to keep; those after them belong to steps that were
            made after the checkpoint from which the run resumes, and are dropped in one atomic move

    Raises:
        UserError: if the file cannot be opened, or rows are missing
    """

    def __init__(self, run: Path, *, rows: int = 0) -> None:
        self.path = run / METRICS
        self.rows = rows
        self._waiting = b""
        try:
            self._keep(rows)
            self._file = self.path.open("ab", buffering=0)
        except UserError:
            raise
        except OSError as error:
            raise FileError(f"{self.path}: cannot be opened ({reason_of(error)})") from None

    def _keep(self, rows: int) -> None:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                kept = list(islice(file, rows))
            if len(kept) < rows:
                raise UserError(
                    f"{self.path} has {len(kept)} rows, but the checkpoint was made after {rows}; "
                    "put the complete file back or start a new run"
                )
            files.write(self.path, "".join(kept))
        elif rows:
            raise UserError(f"{self.path} is missing; put it back or start a new run")

    def log(self, step: int, row: Row) -> None:
        """Append a row; infinities and NaN, for which JSON has no form, become null."""
        was_waiting = bool(self._waiting)
        self._waiting += msgspec.json.encode({"step": step, **row}) + b"\n"
        self.rows += 1
        try:
            self._write()
        except OSError as error:
            if not was_waiting:
                text = f"{self.path}: cannot be written ({reason_of(error)}); rows wait until it can"
                warnings.warn(text, stacklevel=2)

    def sync(self) -> None:
        """Force the rows to disk, before a checkpoint that counts on them.

        Raises:
            OSError: if they cannot be written
        """
        self._write()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._write()
        self._file.close()

    def _write(self) -> None:
        """Write the waiting rows; a row that was written in part is continued where it stopped."""
        while self._waiting:
            self._waiting = self._waiting[self._file.write(self._waiting) :]


class TensorBoard:
    """Event files for TensorBoard in the folder `tensorboard` of a run.

    Args:
        run: the run folder
    """

    def __init__(self, run: Path) -> None:
        _require("tensorboard")
        self._folder = run / "tensorboard"
        self._writer: Any = None

    def log(self, step: int, row: Row) -> None:
        """Write every number of the row as a scalar."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # Later steps that an interrupted run had already written are hidden.
            self._writer = SummaryWriter(str(self._folder), purge_step=step)
        for name, value in _scalars(row).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            self._writer.close()


class WandB:
    """A run of Weights & Biases, named after the run folder and continued when that is resumed.

    Args:
        run: the run folder
        config: the resolved recipe
    """

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._wandb = _require("wandb")
        same_run = {"name": run.name, "id": run.name, "resume": "allow"}
        self._settings = {"project": "soar", **same_run, "dir": str(run), "config": dict(config)}
        self._run: Any = None

    def log(self, step: int, row: Row) -> None:
        """Send the numbers of the row."""
        if self._run is None:
            self._run = self._wandb.init(**self._settings)
        self._run.log(_scalars(row), step=step)

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()


def open_sinks(names: Sequence[str], run: Path, config: Mapping[str, Any]) -> list[Sink]:
    """Return the sinks that the flag --track names.

    Args:
        names: "tensorboard", "wandb"
        run: the run folder
        config: the resolved recipe, for services that show it

    Raises:
        UserError: for an unknown name or a package that is not installed
    """
    known: dict[str, Callable[[], Sink]] = {
        "tensorboard": lambda: TensorBoard(run),
        "wandb": lambda: WandB(run, config),
    }
    for name in names:
        if name not in known:
            raise unknown("tracker", name, known, "--track")
    return [known[name]() for name in names]


def _scalars(row: Row) -> dict[str, float]:
    """Return the numbers of a row under names such as "train/loss"."""
    kind = row.get("kind", "train")
    return {f"{kind}/{name}": value for name, value in row.items() if not isinstance(value, str)}


def _require(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"tracking with '{module}' needs the package {module}: pip install 'soar-robust[{module}]'"
        ) from None
