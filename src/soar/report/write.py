"""Write a report: the page, and its tables as Markdown and LaTeX beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from soar import files
from soar.errors import UserError
from soar.report.content import RunContent
from soar.report.page import page
from soar.report.tables import latex, markdown

# Every file of a report has this near its beginning, so that nothing but a report is ever replaced.
MARK = "soar report"
_BEGINNING = 2000


def check(output: Path) -> None:
    """Check that nothing but an earlier report would be replaced.

    Raises:
        UserError: if one of the files is something else, or the name is not that of a page
    """
    if output.suffix not in (".html", ".htm"):
        raise UserError(f"--output: got {output}, expected a name that ends in .html")
    for path in _files(output):
        if path.exists() and not (path.is_file() and _is_report(path)):
            raise UserError(f"--output: {path} exists and is not a report of soar; choose another name")


def report(runs: Sequence[RunContent], output: Path) -> list[Path]:
    """Write all files, each whole or not at all.

    Args:
        runs: what to show
        output: the page; the tables go beside it

    Returns:
        The files.
    """
    check(output)
    paths = _files(output)
    for path, text in zip(paths, (page(runs), markdown(runs), latex(runs)), strict=True):
        files.write(path, text)
    return paths


def _files(output: Path) -> list[Path]:
    return [output, output.with_suffix(".md"), output.with_suffix(".tex")]


def _is_report(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return MARK in file.read(_BEGINNING)
