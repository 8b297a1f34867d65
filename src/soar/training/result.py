"""How a training ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from soar.training.validation import Scores

Status = Literal["finished", "interrupted", "stopped"]


@dataclass(frozen=True)
class FitResult:
    """How a training ended.

    Args:
        status: "finished"; "interrupted" by a signal, to be resumed; "stopped" by a guard
        reason: the signal or the guard's verdict; empty when finished
        steps: updates made, over all sessions of the run
        best: folder of the best checkpoint
        best_scores: its validation; None without held-out examples
        last_scores: the newest validation
        seconds: wall-clock time, over all sessions of the run
    """

    status: Status
    reason: str
    steps: int
    best: Path | None
    best_scores: Scores | None
    last_scores: Scores | None
    seconds: float
