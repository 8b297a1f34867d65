"""The fields of a recipe for training, validation and guards."""

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
    """The training: how long, how fast, in what precision, saved how often."""

    epochs: Count | Positive
    """How often every training example is seen; 1.5 ends in the middle of the second time."""
    minutes: Positive | None = None
    """Train for so many minutes in place of `epochs`; all that is counted in epochs is stretched."""
    clock: Literal["wall", "cpu"] = "wall"
    """What `minutes` counts: "cpu" counts the CPU time of the process, fair on a busy machine."""
    batch_size: Count
    """Examples per update, summed over all processes and micro-batches."""
    accumulation_steps: Count = 1
    """Split each batch into this many micro-batches, to fit a smaller memory."""
    optimizer: Literal["sgd", "muon"] = "sgd"
    """Muon orthogonalizes the updates of all convolutions but the first; SGD at lr / 2 does the rest."""
    lr: Positive
    """The highest learning rate; the schedule multiplies it. 0.1 is usual for Muon."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    """Momentum of SGD; what Muon orthogonalizes has momentum 0.6."""
    nesterov: bool = False
    """Nesterov's form of SGD's momentum."""
    weight_decay: NotNegative = 2e-4
    """The l2 penalty's factor, applied to every parameter that SGD updates."""
    weight_decay_norms: bool = True
    """Apply weight decay to norms and biases (parameters of fewer than two dimensions), too."""
    schedule: Literal["constant", "step", "cosine", "one-cycle"] = "one-cycle"
    """The learning rate schedule, applied per update."""
    milestones: tuple[Positive, ...] = ()
    """For "step": the epochs after which the rate is multiplied by `decay`."""
    decay: Share | tuple[Share, ...] = 0.1
    """For "step": the factor at each milestone, one for all or one for each."""
    warmup_epochs: NotNegative = 0.0
    """Epochs of linear warmup; see `warmup_fraction`."""
    warmup_fraction: Share | None = None
    """Fraction of the training for linear warmup, instead; "one-cycle" has 0.3 if neither is given."""
    clip_grad_norm: Positive | None = None
    """Clip the gradient to this l2 norm."""
    eps_warmup_epochs: NotNegative = 0.0
    """Epochs over which eps grows linearly to its full size."""
    label_smoothing: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Label smoothing of the objective's classification loss."""
    weight_perturbation: NotNegative = 0.0
    """Adversarial weight perturbation (AWP), relative to the norm of each layer; 0.005 is usual."""
    weight_perturbation_after: NotNegative = 0.0
    """Epochs before the first weight perturbation."""
    ema_decay: Share | None = None
    """Keep an exponential moving average of the weights, and validate and select that."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """bfloat16 is automatic mixed precision; curvature and differences of gradients stay in float32. "auto"
    uses it where the processor computes it."""
    compile: bool = False
    """Compile the passes of inner attacks by torch.compile: slow at first, then somewhat faster. On a CPU it
    needs a C++ compiler."""
    deterministic: bool = False
    """Use only operations that give the same bits at every run, which on a GPU are slower."""
    sync_batch_norm: bool = False
    """Normalize by the whole batch where GPUs share it, not by each GPU's part of it."""
    start_from: str | None = None
    """Initial weights: a run folder, a checkpoint folder or a .safetensors file."""
    channels_last: bool = True
    """Use the channels_last memory format, where that is safe."""
    save_minutes: NotNegative = 5.0
    """Minutes between checkpoints."""
    save_steps: Count | None = None
    """Updates between checkpoints, in addition."""
    num_workers: Annotated[int, Meta(ge=0)] = 1
    """Threads that prepare batches."""
    max_steps: Count | None = None
    """Stop after this many updates; the schedule stays that of the full length."""


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """The attack on held-out examples by which the best checkpoint is chosen."""

    every: Count = 1
    """Epochs between validations; the last epoch is always validated."""
    steps: Count = 10
    """Steps of PGD."""
    restarts: Count = 1
    """Random starts of PGD."""
    loss: Literal["ce", "margin"] = "ce"
    """The loss that PGD maximizes."""
    examples: Count | None = None
    """Use only the first examples, this many."""
    batch_size: Count = 256
    """Examples attacked at once, in each process."""
    select: Literal["robust", "clean"] = "robust"
    """The accuracy that decides which checkpoint is best."""


@dataclass(frozen=True, kw_only=True)
class GuardSettings:
    """When training stops early because it has failed."""

    explosion: Annotated[float, Meta(gt=1)] = 10.0
    """Stop when the loss is above this many times its running mean (or 1, if that is larger)."""
    overfitting: Literal["stop", "warn", "off"] = "stop"
    """What to do at catastrophic overfitting: robust validation accuracy or gradient alignment has collapsed.

    The former only where that accuracy also selects the best checkpoint: standard training always loses it.
    The latter in one-step training, where it needs no validation.
    """
    overfitting_drop: Share = 0.2
    """The drop of robust validation accuracy below its best that counts as collapse, as a fraction."""
    alignment_drop: Share = 0.75
    """The relative drop of the alignment (its running mean) below its best that counts as collapse."""


def checked(settings: Settings, section: str) -> Settings:
    """Check settings made in Python against the same limits as those read from a recipe.

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
    for name in ("lr", "weight_decay", "weight_perturbation", "minutes"):
        if math.isinf(getattr(settings, name) or 0.0):
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
    if settings.warmup_epochs and settings.warmup_fraction is not None:
        raise UserError(
            f"{section}.warmup_fraction: got {settings.warmup_fraction} together with "
            f"{section}.warmup_epochs {settings.warmup_epochs}, expected only one of the two"
        )
    if settings.nesterov and not settings.momentum:
        raise UserError(f"{section}.nesterov needs {section}.momentum above 0, got 0.0")
