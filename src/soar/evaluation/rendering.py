"""Tables wherever Python shows results: printed, on a rich console, and in a notebook."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Wide enough for every column of a table; a fixed width gives the same text on every machine.
_WIDTH = 110
_PRE = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'
# A notebook is light or dark, and its output cannot know which: these colors are as far from white as from
# black. Text without a color has that of the notebook.
_GRAY, _RED, _GREEN = (118, 118, 118), (213, 65, 65), (42, 132, 68)
_YELLOW, _BLUE = (155, 110, 20), (60, 115, 215)


class Rendered(ABC):
    """A result that shows as a table; its `repr` is one short line for lists and debuggers."""

    @abstractmethod
    def __rich__(self) -> RenderableType:
        """Return the table, for a rich console."""

    def __str__(self) -> str:
        return as_text(self.__rich__())

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return as_html(self.__rich__())


def as_text(renderable: RenderableType) -> str:
    """Return a table as plain text without colors."""
    return "\n".join(line.rstrip() for line in _recorded(renderable).export_text().splitlines()).strip("\n")


def as_html(renderable: RenderableType) -> str:
    """Return a table as a piece of HTML that needs no style sheet, script or font."""
    from rich.terminal_theme import TerminalTheme

    normal = [_GRAY, _RED, _GREEN, _YELLOW, _BLUE, _GRAY, _GRAY, _GRAY]
    # What is dim lies halfway between text and background: between black and white here.
    theme = TerminalTheme((238, 238, 238), (0, 0, 0), normal)
    return _recorded(renderable).export_html(theme=theme, inline_styles=True, code_format=_PRE)


def _recorded(renderable: RenderableType) -> Console:
    from rich.console import Console

    # Inside a notebook a console would otherwise show what it prints, besides recording it.
    console = Console(file=io.StringIO(), record=True, width=_WIDTH, force_jupyter=False, color_system=None)
    console.print(renderable)
    return console
