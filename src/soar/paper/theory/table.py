"""Rows of numbers as a table, and tables under titles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

Rows = list[dict[str, Any]]


class Section(NamedTuple):
    """A table and the line above it."""

    title: str
    rows: Rows


def show_all(sections: Iterable[Section]) -> str:
    """Write tables one below the other, each under its title.

    >>> print(show_all([Section("Losses", [{"d": 10}])]))
    Losses
    <BLANKLINE>
     d
    10
    """
    return "\n\n".join(f"{section.title}\n\n{show(section.rows)}" for section in sections)


def show(rows: Rows) -> str:
    """Write rows with a heading: numbers with four digits to the right, words to the left, None as nothing.

    >>> print(show([{"d": 10, "fit": "ridge", "loss": 0.5}, {"d": 100, "fit": "lasso", "loss": None}]))
      d  fit    loss
     10  ridge   0.5
    100  lasso
    """
    names = list(rows[0])
    cells = [names, *([_text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    words = [all(isinstance(row[name], str | None) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.ljust(width) if is_word else cell.rjust(width)
            for cell, width, is_word in zip(line, widths, words, strict=True)
        )
        for line in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
