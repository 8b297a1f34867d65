"""Schedules of the learning rate and of the radius of the threat, over the updates of all epochs."""

from __future__ import annotations

import math
from fractions import Fraction

from soar.recipes.settings import TrainingSettings

_ONE_CYCLE_RISE = 0.3
_WHOLE = Fraction(1)


def schedule_steps(settings: TrainingSettings, steps_per_epoch: int) -> int:
    """Return the updates of all epochs, at least one.

    >>> schedule_steps(TrainingSettings(epochs=1.5, batch_size=1, lr=1), 5)
    8
    """
    return max(1, round(settings.epochs * steps_per_epoch))


def lr_factor(settings: TrainingSettings, step: int, steps_per_epoch: int) -> float:
    r"""Return the factor on the learning rate for one update.

    With \( w \) updates of warm-up and \( t = (step - w) / (total - w) \):

        warm-up    (step + 1) / w
        constant   1
        step       the product of the decays of all milestones passed
        cosine     (1 + cos(pi t)) / 2
        one-cycle  1 - t

    No update is made at rate 0.

    Args:
        settings: the schedule and its numbers
        step: updates made before this one; see `Length.position`
        steps_per_epoch: updates per epoch

    >>> cosine = TrainingSettings(epochs=2, batch_size=1, lr=1, schedule="cosine")
    >>> [round(lr_factor(cosine, step, 2), 3) for step in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    total = schedule_steps(settings, steps_per_epoch)
    warmup = round(settings.warmup_epochs * steps_per_epoch)
    fraction = settings.warmup_fraction
    if fraction is None and settings.schedule == "one-cycle":
        fraction = _ONE_CYCLE_RISE
    if fraction is not None and not warmup:
        warmup = round(fraction * total)
    if step < warmup:
        return (step + 1) / warmup
    if settings.schedule == "step":
        single, count = settings.decay, len(settings.milestones)
        decays = (single,) * count if isinstance(single, float) else single
        passed = (step >= milestone * steps_per_epoch for milestone in settings.milestones)
        return math.prod(decay for decay, is_passed in zip(decays, passed, strict=True) if is_passed)
    share = (step - warmup) / max(total - warmup, 1)
    if settings.schedule == "cosine":
        return (1 + math.cos(math.pi * share)) / 2
    return 1 - share if settings.schedule == "one-cycle" else 1.0


def eps_factor(settings: TrainingSettings, step: int, steps_per_epoch: int) -> Fraction:
    """Return the factor on the radius of the threat for one update, which grows linearly and is never 0.

    A ball of radius 0 would make random starts and dual norms degenerate.

    Args:
        settings: the length of the warm-up
        step: updates made before this one; see `Length.position`
        steps_per_epoch: updates per epoch

    >>> settings = TrainingSettings(epochs=9, batch_size=1, lr=1, eps_warmup_epochs=0.5)
    >>> [str(eps_factor(settings, step, 6)) for step in range(4)]
    ['1/3', '2/3', '1', '1']
    """
    warmup = round(settings.eps_warmup_epochs * steps_per_epoch)
    return Fraction(step + 1, warmup) if step < warmup else _WHOLE
