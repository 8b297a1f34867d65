"""The page of results, made of JSON files: `python -m soar.experiments.show.page DIR`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from soar import files
from soar.errors import UserError
from soar.experiments.claims import Judged, judge
from soar.experiments.loading import load, tables
from soar.experiments.result import Result
from soar.experiments.show.terminal import legend, selection, tally
from soar.experiments.show.text import missing, texts, unit_of
from soar.text import duration

_MARKS = {"held": "✓", "not held": "✗", "undecided": "?"}


def build(folder: Path) -> Path:
    """Make a page of all results in a folder, with the charts of them that lie there.

    Args:
        folder: holds TABLE-SCALE.json files as `soar reproduce` writes them

    Returns:
        The page.

    Raises:
        UserError: if there are no results, one is damaged, or nothing can be written
    """
    results = [Result.load(path) for path in sorted(folder.glob("*-*.json"))]
    if not results:
        raise UserError(
            f"{folder}: there are no TABLE-SCALE.json files; soar reproduce --output {folder} makes them"
        )
    results.sort(key=lambda result: (tables().index(result.name), result.scale))
    pairs = [(result, judge(load(result.name, scale=result.scale).claims, result)) for result in results]
    page = folder / "README.md"
    lines = [*_head(pairs), *(line for pair in pairs for line in _section(*pair, folder))]
    files.write(page, "\n".join(lines) + "\n")
    return page


def main(arguments: Sequence[str]) -> int:
    """Build the page of a folder."""
    if len(arguments) != 1:
        print("soar: expected one folder: python -m soar.experiments.show.page DIR", file=sys.stderr)
        return 2
    try:
        print(build(Path(arguments[0])))
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2
    return 0


def _command(result: Result) -> str:
    seeds = f" --seeds {result.seeds}" if result.seeds > 1 else ""
    return f"soar reproduce {result.name} --scale {result.scale}{seeds}"


def _head(pairs: Sequence[tuple[Result, Sequence[Judged]]]) -> list[str]:
    """Return what the page is, and a line for each table."""
    lines = [
        "# The paper's tables, reproduced",
        "",
        "Made by `python -m soar.experiments.show.page` from the JSON files beside it, which",
        "`soar reproduce` wrote. Our experiments differ from the paper's: read each caution first.",
        "",
        "| table | what it holds | scale | seeds | numbers | claims |",
        "|---|---|---|---|---|---|",
    ]
    for result, found in pairs:
        cells = [cell for row in result.rows.values() for cell in row.values()]
        counted = f"{sum(bool(cell.values) for cell in cells)} of {len(cells)}"
        link = f"[{result.name}](#{result.file_name.lower()})"
        verdicts = tally(found) if found else "none"
        what = re.split("[;:]", result.title)[0]
        lines.append(f"| {link} | {what} | {result.scale} | {result.seeds} | {counted} | {verdicts} |")
    every = [one for _, found in pairs for one in found]
    lines += ["", f"Claims of the paper over all tables: {tally(every)}.", ""]
    absent = [table for table in tables() if table not in {result.name for result, _ in pairs}]
    if absent:
        lines += [f"Not measured here: {', '.join(absent)}; `soar reproduce TABLE` does it.", ""]
    return lines


def _section(result: Result, found: Sequence[Judged], folder: Path) -> list[str]:
    lines = [
        f"## {result.file_name}",
        "",
        f"{result.title}.",
        "",
        f"**Caution.** {result.caution}",
        "",
        *_table(result),
        "",
        f"{legend(result)}; measured in {duration(result.seconds)} of one process."
        f" [Numbers]({result.file_name}.json), made by `{_command(result)}`.",
        "",
    ]
    if result.validation:
        lines += [f"{selection(result)}.", ""]
    for places, reason, commands in missing(result):
        lines.append(f"- missing: {places}: {reason}" + "".join(f"; `{one}`" for one in commands))
    charts = {
        f"{result.file_name}-curves.svg": f"accuracy along {result.row_key}",
        f"{result.file_name}.svg": "paper and ours",
    }
    for name, what in charts.items():
        if (folder / name).is_file():
            lines += ["", f"![{what}, {result.name}]({name})"]
    return [*lines, "", *_claims(found)]


def _table(result: Result) -> list[str]:
    """Return the rows of a table; a cell is "paper → ours (difference)"."""
    columns = result.columns
    lines = [f"| {result.row_key} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row, cells in result.rows.items():
        shown = []
        for column in columns:
            theirs, ours, difference = texts(cells[column], unit_of(result, column))
            more = f" ({difference})" if cells[column].difference is not None else ""
            shown.append(f"{theirs} → **{ours}**{more}" if cells[column].values else f"{theirs} → -")
        lines.append(f"| {row} | {' | '.join(shown)} |")
    return [*lines, "", "Each cell: the paper's number → **ours** (difference)."]


def _claims(found: Sequence[Judged]) -> list[str]:
    if not found:
        return []
    lines = ["| | claim of the paper | on our numbers |", "|---|---|---|"]
    for one in found:
        claim = f"{one.claim.text} ({one.claim.source})" if one.claim.source else one.claim.text
        lines.append(f"| {_MARKS[one.verdict]} {one.verdict} | {_safe(claim)} | {_safe(one.why)} |")
    return [*lines, ""]


def _safe(text: str) -> str:
    """Keep a text within its cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
