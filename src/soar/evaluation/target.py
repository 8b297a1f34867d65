"""What is evaluated: a model, its examples and the threat, with their names for records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from soar import values
from soar.attacks import Attack, Outcomes, run
from soar.attacks.engine import Listener
from soar.data.stored import StoredImages
from soar.data.unverified import SUFFIX
from soar.errors import UserError
from soar.evaluation.examples import Data, Inputs, gather
from soar.inputs import check_batch_size
from soar.model_state import placement, probing, require_module
from soar.prediction import checked_logits, logits_of, predict
from soar.progress import Mode
from soar.threat import Threat, require_threat
from soar.weights import Weights

if TYPE_CHECKING:
    from soar.data import Dataset, Split
    from soar.runs import Run


_BATCHES_AT_ONCE = 16
_NUMBERS_AT_ONCE = 8 << 20
COMPILED_AGAIN = "batches shrink as images are fooled, and each size would be compiled again"
"""why a compiled model is evaluated as it was written"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A model with its examples and the threat, everything that an attack needs.

    Images, labels and index are read once, in `data`; predictions are computed when they are first needed.
    For another model, threat or name use `dataclasses.replace`, for some of the examples `subset`.

    Args:
        model: any module that maps images in [0, 1] to logits
        data: a split, images (uint8, or float in [0, 1]) and labels, or a torch Dataset or DataLoader of them
        threat: what the adversary may do
        seed: seed of all random numbers
        batch_size: how many examples are evaluated at once
        progress: "auto", "live", "plain" or "quiet"
        name: name of the model in records
        data_name: name of the data in records
        class_names: names of the classes, if they are known
        weights: the file that the model's weights were read from, if that is known

    Raises:
        UserError: if one of these cannot be used

    >>> from soar.threat import Linf
    >>> x, y = torch.tensor([[[[0.9, 0.1]]], [[[0.4, 0.5]]]]), torch.tensor([0, 0])
    >>> target = Target(model=nn.Flatten(), data=(x, y), threat=Linf("0.1"))
    >>> target.correct, target.subset(target.correct).index
    (tensor([ True, False]), tensor([0]))
    """

    model: nn.Module
    data: Data
    threat: Threat
    seed: int = 0
    batch_size: int = 128
    progress: Mode = "quiet"
    name: str = "model"
    data_name: str = "data"
    class_names: tuple[str, ...] = ()
    weights: Weights | None = None

    def __post_init__(self) -> None:
        require_module(self.model)
        require_threat(self.threat)
        check_batch_size(self.batch_size)
        values.whole(self.seed, "seed")
        values.text(self.name, "name")
        values.text(self.data_name, "data_name")
        # Read once: copies of this target for another model or threat share the images.
        object.__setattr__(self, "data", gather(self.data))
        self._check_class_names()

    @staticmethod
    def from_run(
        run: Run,
        *,
        root: Path | None = None,
        data: Dataset | None = None,
        split: Literal["train", "validation", "test"] = "test",
        examples: int | None = None,
        threat: Threat | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        batch_size: int = 128,
        progress: Mode = "quiet",
    ) -> Target:
        """Load the trained model of a run with its data and its threat.

        Args:
            run: a run folder with a checkpoint
            root: the folder of all datasets
            data: other data than the run's own
            split: which part of the data
            examples: only so many, the first ones
            threat: another threat than the run's own
            device: where the model is moved to
            seed: seed of all random numbers
            batch_size: how many examples are evaluated at once
            progress: how to show progress

        Raises:
            UserError: if the run has no weights, or its data are missing
        """
        own = run.data(root)
        source = own if data is None else data
        name = str(run.path)
        if own.name.endswith(SUFFIX) and source.name != own.name:
            # Otherwise the name of the data says so.
            name += f", trained on {own.name}"
        chosen: Split = getattr(source, split)
        return Target(
            model=run.trained_model(own).to(device),
            data=chosen if examples is None else chosen.first(examples),
            threat=threat or run.threat(),
            seed=seed,
            batch_size=batch_size,
            progress=progress,
            name=name,
            data_name=f"{source.name} ({split})",
            class_names=tuple(source.classes),
            weights=run.weights(),
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def stored(self) -> Tensor | StoredImages:
        """The images as they were given: uint8, or float in [0, 1]; perhaps in files until indexed."""
        return gather(self.data).stored

    @property
    def images(self) -> Tensor:
        """All of them in memory; those that are in files are read at each call."""
        return gather(self.data).images

    @property
    def labels(self) -> Tensor:
        """The true classes as they were given."""
        return gather(self.data).labels

    @property
    def index(self) -> Tensor:
        """The identity of each example, which decides its random numbers."""
        return gather(self.data).index

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return placement(self.model)[0]

    @property
    def x(self) -> Inputs:
        """The images as the model takes them: float in [0, 1], on its device, in its precision."""
        return Inputs(self.stored, *placement(self.model))

    @cached_property
    def y(self) -> Tensor:
        """The true classes, on the model's device."""
        return self.labels.to(self.device)

    @cached_property
    def logits(self) -> Tensor:
        """The model's logits for the clean images, on its device.

        Raises:
            UserError: if they are not one row of finite logits for each image, or a label is not a class
        """
        parts = [
            self.predict(self.stored[rows])
            for rows in torch.arange(len(self), device="cpu").split(self.at_once)
        ]
        found = torch.cat(parts) if parts else self.predict(self.images)
        if not len(self):
            return found
        classes = checked_logits(found, len(self)).shape[1]
        wrong = (self.labels < 0) | (self.labels >= classes)
        if bool(wrong.any()):
            first = int(wrong.nonzero()[0])
            raise UserError(
                f"labels: got {int(self.labels[first])} for image {first} ({int(wrong.sum())} of {len(self)}"
                f" images), expected 0 to {classes - 1} for {classes} classes"
            )
        return found

    @cached_property
    def predictions(self) -> Tensor:
        """The class predicted for each clean image, on the CPU."""
        return self.logits.argmax(dim=1).cpu()

    @cached_property
    def correct(self) -> Tensor:
        """Which clean images are correctly classified, on the CPU."""
        return self.predictions == self.labels.cpu()

    def predict(self, images: Tensor) -> Tensor:
        """Return the model's logits for any images, with the model in eval mode and without gradients."""
        with probing(self.model):
            return predict(self.model, images, self.batch_size)

    def subset(self, rows: Tensor | slice) -> Target:
        """Return the same target with some of its examples, in the order of `rows`.

        Args:
            rows: positions among the examples, a flag for each of them, or a slice
        """
        rows = rows if isinstance(rows, slice) else rows.cpu()
        return replace(self, data=gather(self.data).subset(rows))

    @property
    def at_once(self) -> int:
        """How many images are held as floats at once, with the points of an attack."""
        batches = _NUMBERS_AT_ONCE // max(1, self.batch_size * math.prod(self.stored.shape[1:]))
        return self.batch_size * min(max(1, batches), _BATCHES_AT_ONCE)

    def batches(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield images as the model takes them, their classes and their index, all on the model's device."""
        index = self.index.to(self.device)
        for rows in torch.arange(len(self), device="cpu").split(self.batch_size):
            part = slice(int(rows[0]), int(rows[-1]) + 1)
            yield self.x[part], self.y[part], index[part]

    def attack(
        self,
        attack: Attack[Any],
        *,
        rows: Tensor | None = None,
        threat: Threat | None = None,
        goal: Tensor | None = None,
        samples: int = 1,
        copy: nn.Module | None = None,
        confirm: bool = False,
        listener: Listener | None = None,
    ) -> Outcomes:
        """Run one attack on the examples.

        Args:
            attack: the attack
            rows: positions of the examples to attack; all by default
            threat: another threat than the target's own
            goal: the class that each of them should end in; any wrong class by default
            samples: how many outputs of a randomized model are averaged at every point
            copy: a faster copy of the model to attack in its place
            confirm: whether what fools the copy counts only if it fools the model itself
            listener: called after every batch with the progress and the outcomes so far
        """
        rows = torch.arange(len(self), device="cpu") if rows is None else rows.cpu()
        models = [copy or self.model, self.model]
        attacked, judge = models if samples == 1 else [EOTModel(model, samples) for model in models]
        return run(
            attacked,
            attack,
            threat or self.threat,
            self.stored[rows],
            self.labels[rows],
            index=self.index[rows],
            goal=goal,
            seed=self.seed,
            batch_size=self.batch_size,
            clean_logits=self.logits[rows.to(self.logits.device)],
            judge=judge if confirm else None,
            progress=listener,
        )

    def _check_class_names(self) -> None:
        names = self.class_names
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise UserError(f"class_names: got a {type(names).__name__}, expected a tuple of names")
        for name in names:
            values.text(name, "class_names")
        if names and len(self) and (highest := int(self.labels.max())) >= len(names):
            raise UserError(f"class_names: got {len(names)} names, but labels go up to {highest}")


class EOTModel(nn.Module):
    """A randomized model whose logits are averaged over several passes (expectation over transformation).

    The gradient of a single pass is mostly noise, and a point that fools one pass out of many proves little.

    Args:
        model: any module that maps images to logits
        samples: how many passes are averaged
    """

    def __init__(self, model: nn.Module, samples: int) -> None:
        super().__init__()
        self.model, self.samples = model, samples

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean of the logits."""
        return torch.stack([logits_of(self.model, x) for _ in range(self.samples)]).mean(dim=0)
