"""What a recipe may say about training, its validation and its guards."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from soar.errors import UserError
from soar.options import convert

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, lt=1)]
Settings = TypeVar("Settings", "TrainingSettings", "ValidationSettings", "GuardSettings")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Stochastic gradient descent: how long, how fast, in what precision, saved how often."""

    epochs: Count
    """How often every training example is seen."""
    batch_size: Count
    """Examples an update, summed over all processes and micro-batches."""
    accumulate: Count = 1
    """Split each batch into this many micro-batches, to fit a smaller memory."""
    lr: Positive
    """The highest learning rate; the schedule multiplies it."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    """Momentum of SGD."""
    nesterov: bool = False
    """Nesterov's form of momentum."""
    weight_decay: NotNegative = 2e-4
    """The l2 penalty's factor, applied to every parameter."""
    schedule: Literal["constant", "step", "cosine", "one-cycle"] = "one-cycle"
    """How the learning rate goes; always per update, not per epoch."""
    milestones: tuple[Positive, ...] = ()
    """For "step": the epochs after which the rate is multiplied by `decay`."""
    decay: Share | tuple[Share, ...] = 0.1
    """For "step": the factor at each milestone, one for all or one for each."""
    warmup_epochs: NotNegative = 0.0
    """The rate rises linearly for so long; "one-cycle" rises for 0.3 of the training when 0."""
    clip_grad_norm: Positive | None = None
    """Scale the gradient down to this l2 norm when it is longer."""
    eps_warmup_epochs: NotNegative = 0.0
    """The threat grows linearly to its full size for so long."""
    label_smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """The part of every label that is spread over all classes, in the objective's classification loss."""
    weight_perturbation: NotNegative = 0.0
    """Take gradients where each layer was moved uphill by this share of its norm (AWP); 0.005 is usual."""
    weight_perturbation_after: NotNegative = 0.0
    """Epochs before the first perturbation of weights."""
    ema_decay: Share | None = None
    """Keep an exponential moving average of the weights, and validate and select that."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 runs the network's products in half the width, where the objective allows it."""
    start_from: str | None = None
    """Weights to begin with: a run folder, a checkpoint folder or a .safetensors file."""
    channels_last: bool = True
    """Store images with the channel as the fastest index, as fast kernels like it, where that is safe."""
    save_minutes: NotNegative = 5.0
    """Write a checkpoint when so many minutes have passed since the last one."""
    save_steps: Count | None = None
    """Write a checkpoint after every so many updates, too."""
    workers: Annotated[int, Meta(ge=0)] = 1
    """Threads that prepare batches."""
    max_steps: Count | None = None
    """Stop after so many updates; the schedule stays that of the full length."""


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """The attack on held-out examples by which the best checkpoint is chosen."""

    every: Count = 1
    """Validate after every so many epochs, and at the end."""
    steps: Count = 10
    """Steps of PGD."""
    restarts: Count = 1
    """Random starts of PGD."""
    loss: Literal["ce", "margin"] = "ce"
    """What PGD ascends."""
    examples: Count | None = None
    """Use only the first so many held-out examples."""
    batch_size: Count = 256
    """Examples the attack evaluates at once, in each process."""
    select: Literal["robust", "clean"] = "robust"
    """The accuracy that decides which checkpoint is best."""


@dataclass(frozen=True, kw_only=True)
class GuardSettings:
    """When training stops by itself because it has gone wrong."""

    explosion: Annotated[float, Meta(gt=1)] = 10.0
    """Stop when the loss is above this many times its running mean (or 1, if that is larger)."""
    overfitting: Literal["stop", "warn", "off"] = "stop"
    """What to do when robust validation accuracy has collapsed (catastrophic overfitting).

    Only where that accuracy also selects the best checkpoint: standard training loses it by nature.
    """
    overfitting_drop: Share = 0.2
    """How far below its best robust validation accuracy must fall, as a share of the examples."""


def checked(settings: Settings, section: str) -> Settings:
    """Hold settings made in Python to the same limits as those read from a recipe.

    Args:
        settings: any of the settings of this module
        section: the recipe section, for messages

    Raises:
        UserError: for a value outside its limits, or two values that contradict each other

    >>> checked(GuardSettings(explosion=0.5), "guards")
    Traceback (most recent call last):
    soar.errors.UserError: guards.explosion: got 0.5, expected `float` > 1.0 (flag --guards.explosion)
    """
    held = convert(asdict(settings), type(settings), section)
    if isinstance(held, TrainingSettings):
        _check_training(held, section)
    return held


def _check_training(settings: TrainingSettings, section: str) -> None:
    for name in ("lr", "weight_decay", "weight_perturbation"):
        if math.isinf(getattr(settings, name)):
            raise UserError(f"{section}.{name}: got inf, expected a finite number (flag --{section}.{name})")
    if settings.schedule == "step" and not settings.milestones:
        raise UserError(
            f"{section}.schedule is 'step' but {section}.milestones is empty; "
            f"give the epochs after which the rate falls (flag --{section}.milestones)"
        )
    if settings.schedule != "step" and settings.milestones:
        raise UserError(
            f"{section}.milestones: got {list(settings.milestones)}, but only the schedule 'step' "
            f"uses them and {section}.schedule is '{settings.schedule}'"
        )
    if not isinstance(settings.decay, float) and len(settings.decay) != len(settings.milestones):
        raise UserError(
            f"{section}.decay: got {len(settings.decay)} factors for {len(settings.milestones)} milestones, "
            f"expected one for each, or a single number for all (flag --{section}.decay)"
        )
    if settings.nesterov and not settings.momentum:
        raise UserError(f"{section}.nesterov needs {section}.momentum above 0, got 0.0")
