"""What is odd about a model's answers: a kind that code can tell apart, and a message for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NoteKind = Literal["probabilities", "random", "state", "batch", "modes", "outputs", "other"]


@dataclass(frozen=True)
class Note:
    """One thing that is odd about a model's answers.

    Args:
        kind: "probabilities" in place of logits; "random" answers; "state" that outlives a call; answers that
            depend on the "batch"; layers with "modes" that do not follow `model.eval()`; more "outputs" than
            classes; or "other", of which files of older versions hold only the message
        message: what was got, what is expected and what to do, in one line

    >>> print(Note("random", "the model is randomized"))
    the model is randomized
    """

    kind: NoteKind
    message: str

    def __str__(self) -> str:
        return self.message
