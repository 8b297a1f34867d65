"""The trained network that the theory is measured on: a run of `soar train`, or one trained on the spot."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from soar import losses, recipes, runs
from soar.curvature import LossAt
from soar.data import to_unit
from soar.errors import UserError
from soar.progress import Mode
from soar.threat import Linf

RECIPE = "demo-standard"


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, images that it has not seen, and what the adversary may do to them.

    Args:
        name: what to call it in a title
        data_name: what the images are
        model: as it was trained
        threat: the ball
        x: images in [0, 1]
        y: labels
        index: identity of each image
    """

    name: str
    data_name: str
    model: nn.Module
    threat: Linf
    x: Tensor
    y: Tensor
    index: Tensor

    def loss(self, labels: Tensor) -> LossAt:
        """Give the cross-entropy as a function of images, for these labels, or one label for all.

        The softmax is in double precision: 1 - p of a confident network is lost in single precision, and with
        it every derivative. The network itself is differentiated well enough in its own.
        """
        return lambda points: losses.cross_entropy(self.model(points).double(), labels.expand(len(points)))


@contextmanager
def trained(folder: Path | None, *, mode: Mode = "auto") -> Iterator[runs.Run]:
    """Train a small network on the bundled data, about a minute, and give its run.

    Args:
        folder: where the run is kept; None for a temporary place that is gone afterwards
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


def open_subject(run: runs.Run, examples: int, *, root: Path | None = None) -> Subject:
    """Load the network of a run and the first test images of its data.

    Args:
        run: a finished training
        examples: how many images
        root: the folder of all data sets

    Raises:
        UserError: if the run's threat is not an linf ball, or there are no weights
    """
    threat = run.threat()
    if not isinstance(threat, Linf):
        raise UserError(f"RUN: {run.path} was trained for {threat}; tightness is about linf threats")
    data = run.data(root)
    split = data.test.first(examples)
    name = run.path.name if run.path.parent == Path() else f"{run.path.parent.name}/{run.path.name}"
    return Subject(
        name=name,
        data_name=f"{data.name} (test)",
        model=run.trained_model(data).eval(),
        threat=threat,
        x=to_unit(split.images),
        y=split.labels,
        index=split.indices,
    )
