"""Prepares docstrings for Markdown: doctests and formulas written in plain text become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTION = re.compile(r"(?:Args|Returns|Raises|Attributes|Yields):$", re.MULTILINE)
PROSE = re.compile(r"(?:\b[A-Za-z]{2,}\b[,;]? ){4}[A-Za-z]{2,}")
SIGNS = re.compile(r"[\^=]|\|\||_\w|_\{")


class Blocks(griffe.Extension):
    """Sets off what Markdown would take for quotations and emphasis."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = with_blocks(obj.docstring.value)


def with_blocks(text: str) -> str:
    r"""Fence doctests, and formulas that stand before the first section.

    >>> with_blocks("Double.\n\ny_i = 2 x_i\n\n>>> double(1)\n2")
    'Double.\n\n```text\ny_i = 2 x_i\n```\n\n```pycon\n>>> double(1)\n2\n```'
    """
    paragraphs = re.split(r"\n[ ]*\n", text)
    sections = [i for i, one in enumerate(paragraphs) if SECTION.match(one)]
    first = sections[0] if sections else len(paragraphs)
    return "\n\n".join(_set(one, 0 < i < first) for i, one in enumerate(paragraphs))


def _set(paragraph: str, may_be_formula: bool) -> str:
    if paragraph.startswith(">>> "):
        return f"```pycon\n{paragraph}\n```"
    is_formula = SIGNS.search(paragraph) and not PROSE.search(paragraph.replace("\n", " "))
    if may_be_formula and is_formula and "\\(" not in paragraph and "`" not in paragraph:
        return f"```text\n{paragraph}\n```"
    return paragraph
