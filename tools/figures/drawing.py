"""Figures: one style for all, and files in the format that their name asks for."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import files
from soar.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")

# Distinguishable for color-blind readers (Okabe and Ito, 2008).
BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "#6E6E6E"

# The colors of an SVG on a dark page; those of text, grid and background of _STYLE are among them.
_IN_THE_DARK = {
    "#ffffff": "#1e2129",
    "#222222": "#f0f0f0",
    "#333333": "#d6d6d6",
    "#e4e4e4": "#3b3f4a",
    BLUE: "#56b4e9",
    ORANGE: "#ff9248",
    GREEN: "#35c99b",
    GRAY: "#a9adb5",
}

_STYLE: Any = {
    "text.color": "#222222",
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": "#333333",
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "xtick.labelcolor": "#333333",
    "ytick.labelcolor": "#333333",
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
    "lines.linewidth": 2,
    "svg.hashsalt": "soar",
}


def check(path: Path) -> None:
    """Refuse a figure that could not be written, before anything is computed for it.

    Args:
        path: the file of --figure

    Raises:
        UserError: if the format is unknown, the folder is not there or matplotlib is not installed
    """
    if path.suffix not in FORMATS:
        raise UserError(f"--figure: got '{path}', expected a name that ends in {', '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UserError(f"--figure: got '{path}', but there is no folder '{path.parent}'")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UserError('--figure needs matplotlib, which is not installed: pip install ".[docs]"') from None


@contextmanager
def drawing(path: Path, width: float = 7.0, height: float = 4.2) -> Iterator[Figure]:
    """Provide an empty figure in the common style and save it at the end.

    The same numbers give the same file: no dates, no random names. An SVG has its own background and
    follows the reader's choice of light or dark, so it can be read on any page.

    Args:
        path: where to save; the suffix chooses the format
        width: in inches
        height: in inches
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        undated = {"CreationDate": None} if path.suffix == ".pdf" else {"Date": None}
        kind = path.suffix.removeprefix(".")
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, dpi=160, metadata=None if kind == "png" else undated)
        content = drawn.getvalue()
        files.write(path, _with_dark_colors(content.decode()) if kind == "svg" else content)


def _with_dark_colors(svg: str) -> str:
    """Add rules that replace every color on a dark page; matplotlib writes colors into style attributes."""
    rules = "".join(
        f'[style*="{kind}: {light.lower()}"] {{ {kind}: {dark} !important }}\n'
        for light, dark in _IN_THE_DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>\n@media (prefers-color-scheme: dark) {{\n{rules}}}\n</style>\n"
    head, end, drawn = svg.partition("<defs>")
    return f"{head}{style}{end}{drawn}"
