"""Training: the loop, its schedules and guards, checkpoints, many processes, metrics."""

from soar.training import result, trainer
from soar.training.result import FitResult
from soar.training.trainer import Trainer

__all__ = ["FitResult", "Trainer", "result", "trainer"]
