"""How a training ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from soar import files
from soar.errors import UserError
from soar.training.validation import Scores

OUTCOME = "outcome.json"
"""the file of a run folder that records how its training ended"""

Status = Literal["finished", "interrupted", "stopped"]


@dataclass(frozen=True)
class FitResult:
    """How a training ended.

    Args:
        status: "finished"; "interrupted" by a signal, to be resumed; "stopped" by a guard
        reason: the signal or the guard's reason; empty when finished
        steps: updates made, over all sessions of the run
        best: folder of the best checkpoint
        best_scores: its validation; None without held-out examples
        last_scores: the latest validation
        seconds: wall-clock time, over all sessions of the run
        cpu_seconds: CPU time of the main process and all its threads, over all sessions of the run
    """

    status: Status
    reason: str
    steps: int
    best: Path | None
    best_scores: Scores | None
    last_scores: Scores | None
    seconds: float
    cpu_seconds: float


class Outcome(NamedTuple):
    """How a training ended, as its run folder records it; there is none while it can go on.

    Args:
        status: "finished" or "stopped"
        reason: the guard's reason; empty when finished
        seconds: wall-clock time, over all sessions of the run
        cpu_seconds: CPU time of the main process, over all sessions; None in files that lack it
    """

    status: str
    reason: str
    seconds: float
    cpu_seconds: float | None = None

    def save(self, run: Path) -> None:
        """Write it into the run folder, whole or not at all."""
        files.write(run / OUTCOME, json.dumps(self._asdict()) + "\n")

    @staticmethod
    def load(run: Path) -> Outcome | None:
        """Read how the training of a run ended; None where it has not.

        Raises:
            UserError: if the file is damaged
        """
        path = run / OUTCOME
        if not path.exists():
            return None
        try:
            return Outcome(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise UserError(
                f"{path}: damaged; remove it, and the training goes on or is seen to be over"
            ) from None
