"""The trained network that a figure is measured on: a run of `soar train`, or one trained on the spot."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from soar import recipes, runs
from soar.data import to_unit
from soar.errors import UserError
from soar.progress import Mode
from soar.threat import Linf

RECIPE = "demo-standard"


@dataclass(frozen=True)
class Network:
    """A network, images that it was not trained on, and the threat."""

    name: str
    """its name in a title"""
    data_name: str
    model: nn.Module
    threat: Linf
    x: Tensor
    """images in [0, 1]"""
    y: Tensor
    index: Tensor
    """identity of each image"""


@contextmanager
def trained(folder: Path | None, *, mode: Mode = "auto") -> Iterator[runs.Run]:
    """Train a small network on the bundled data, which takes about a minute.

    Args:
        folder: where the run is kept; None for a temporary folder
        mode: how to show progress
    """
    from soar.training.prepare import prepare

    with tempfile.TemporaryDirectory() as temporary:
        run = runs.plan(recipes.load(RECIPE), folder or Path(temporary) / RECIPE)
        trainer = prepare(run, progress=mode)
        run.create()
        result = trainer.fit()
        if result.status == "interrupted":
            raise KeyboardInterrupt
        if result.status == "stopped":
            raise UserError(f"the training in {run.path} stopped: {result.reason}")
        yield run


def open_network(run: runs.Run, examples: int, *, root: Path | None = None) -> Network:
    """Load the network of a run and the first test images of its data.

    Args:
        run: a finished training
        examples: number of images
        root: the folder of all datasets

    Raises:
        UserError: if the run's threat is not an linf ball, or there are no weights
    """
    threat = run.threat()
    if not isinstance(threat, Linf):
        raise UserError(f"RUN: {run.path} was trained for {threat}; expected an linf threat")
    data = run.data(root)
    split = data.test.first(examples)
    name = run.path.name if run.path.parent == Path() else f"{run.path.parent.name}/{run.path.name}"
    return Network(
        name=name,
        data_name=f"{data.name} (test)",
        model=run.trained_model(data).eval(),
        threat=threat,
        x=to_unit(split.images),
        y=split.labels,
        index=split.indices,
    )
