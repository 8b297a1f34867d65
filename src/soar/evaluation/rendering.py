"""What the command line prints, as plain text and as HTML for notebooks."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Wide enough for every column of a table; a fixed width gives the same text on every machine.
_WIDTH = 110
_PRE = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


def as_text(renderable: RenderableType) -> str:
    """Return a table as plain text without colors."""
    return "\n".join(line.rstrip() for line in _recorded(renderable).export_text().splitlines()).strip("\n")


def as_html(renderable: RenderableType) -> str:
    """Return a table as a piece of HTML that needs no style sheet, script or font."""
    return _recorded(renderable).export_html(inline_styles=True, code_format=_PRE)


def _recorded(renderable: RenderableType) -> Console:
    from rich.console import Console

    # Inside a notebook a console would otherwise show what it prints, besides recording it.
    console = Console(file=io.StringIO(), record=True, width=_WIDTH, force_jupyter=False, color_system=None)
    console.print(renderable)
    return console
