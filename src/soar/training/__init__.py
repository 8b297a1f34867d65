"""Training: the loop, its schedules and guards, checkpoints, many processes, metrics.

Importing this package imports no torch; the trainer is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soar.training import result as result
    from soar.training import trainer as trainer
    from soar.training.result import FitResult as FitResult
    from soar.training.trainer import Trainer as Trainer

__all__ = ["FitResult", "Trainer", "result", "trainer"]

_HOMES = {"FitResult": "result", "Trainer": "trainer"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOMES.get(name, name)}")
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return __all__
