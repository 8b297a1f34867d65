"""Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Write a table; a bar inside a cell is kept from ending it, where that is not code.

    >>> table(["a"], [["x|y `x|y`"]])
    ['| a |', '|---|', '| x\\|y `x|y` |', '']
    """
    lines = [_row(header), "|" + "---|" * len(header)]
    return [*lines, *map(_row, rows), ""]


def code(text: str) -> str:
    """Set a text as code, or nothing where there is none."""
    return f"`{text}`" if text else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    return re.sub(r"(`[^`]*`)|\|", lambda match: match[1] or "\\|", text)
