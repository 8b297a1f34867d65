"""A small training that is run, and killed, by `test_kill` in a process of its own.

The process may be made slow at one place, so that it can be killed there, or kill itself before one of the
operations that it performs on the files of its run folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from soar import attacks, recipes
from soar.data import Dataset
from soar.data.npy import Mapped
from soar.runs import Run
from soar.training import trainer, updates, validation
from soar.training.trainer import Trainer
from tests.training import small

OPERATIONS = ("open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree")


def delay(owner: Any, name: str, seconds: float) -> None:
    original = getattr(owner, name)

    def slowly(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        time.sleep(seconds)
        return result

    setattr(owner, name, slowly)


class Counter:
    """Counts what is done to the files of a folder, and kills this process before operation number `last`."""

    def __init__(self, folder: Path, last: int | None) -> None:
        self.folder, self.last, self.count = str(folder), last, 0
        sys.addaudithook(self.listen)
        self.real_write = os.write
        os.write = self.write

    def listen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in OPERATIONS or self.folder not in str(arguments[0]):
            return
        # A file that is opened for reading only, by name or by descriptor.
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        if self.is_last():
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, descriptor: int, data: Any) -> int:
        """Write half of what should be written, and die."""
        if self.is_last():
            self.real_write(descriptor, bytes(data)[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self.real_write(descriptor, data)

    def is_last(self) -> bool:
        self.count += 1
        return self.count == self.last


def from_file(folder: Path) -> Dataset:
    """Return the small dataset with training images that are read from a file."""
    data = small.dataset()
    np.save(folder / "images.npy", data.train.images[:].numpy())
    return replace(data, train=replace(data.train, stored=Mapped(folder / "images.npy")))


def make_trainer(run: Path, *, streamed: bool) -> Trainer:
    """Make a trainer whose last checkpoint is its best one, so that its end moves the pointer."""
    attacked = validation.validate

    def rising(*arguments: Any, **options: Any) -> validation.Scores:
        scores = attacked(*arguments, **options)
        return replace(scores, robust=scores.step / 100)

    trainer.validate = rising  # type: ignore[attr-defined]
    data = from_file(run.parent) if streamed else small.dataset()
    workers = 2 if streamed else 0
    changes: dict[str, Any] = {"epochs": 2, "batch_size": 16, "save_steps": 2, "ema_decay": 0.9}
    return small.trainer(run, data=data, resume=True, num_workers=workers, **changes)


def train(*, run: str, slow: str = "", last: int | None = None, streamed: bool = False) -> None:
    """Begin a run or go on with it, as `soar train` does; note beside it how it ended."""
    torch.set_num_threads(1)
    if slow == "step":
        delay(updates.Updates, "apply", 0.02)
    elif slow == "attack":
        delay(attacks, "run", 0.3)
    folder = Path(run)
    made = make_trainer(folder, streamed=streamed)
    counter = Counter(folder, last)
    if not (folder / "recipe.toml").exists():
        Run(folder, recipes.load("demo-robust")).create()
    result = made.fit()
    summary = {"status": result.status, "reason": result.reason, "steps": result.steps}
    folder.with_suffix(".json").write_text(json.dumps(summary | {"operations": counter.count}))
