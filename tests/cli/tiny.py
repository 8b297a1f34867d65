"""Flags that make the demo recipe a matter of seconds."""

from __future__ import annotations

TINY = [
    *("--model.width", "4", "--objective.steps", "1"),
    *("--max_steps", "6", "--batch_size", "32", "--epochs", "1", "--data.validation", "100"),
    *("--validation.examples", "20", "--validation.steps", "2", "--guards.overfitting", "off"),
    *("--threads", "1", "--quiet"),
]
