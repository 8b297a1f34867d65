"""Rows of numbers as a table."""

from __future__ import annotations

from typing import Any

Rows = list[dict[str, Any]]


def show(rows: Rows) -> str:
    """Write rows with a heading, columns aligned; numbers with four digits, nothing for what is None.

    >>> print(show([{"d": 10, "loss": 0.5}, {"d": 100, "loss": None}]))
      d  loss
     10   0.5
    100
    """
    names = list(rows[0])
    cells = [names, *([_text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(line.rstrip() for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
