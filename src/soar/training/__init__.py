"""Training: the loop, its schedules and guards, checkpoints, many processes, metrics.

Importing this package imports no torch; the trainer is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soar.training.result import FitResult as FitResult
    from soar.training.trainer import Trainer as Trainer

__all__ = ["FitResult", "Trainer"]


def __getattr__(name: str) -> Any:
    if name in ("Trainer", "FitResult"):
        from soar.training import trainer

        return getattr(trainer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
