"""The page of results, made of JSON files: `python -m soar.experiments.showing.results_page DIR`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from soar import files
from soar.errors import UserError
from soar.paper.tables import PaperTable
from soar.experiments import table_file
from soar.experiments.claims import Judged
from soar.experiments.conduct import ORDER, judged, paper_of
from soar.experiments.gather import VALIDATION
from soar.experiments.showing.figures import bars
from soar.experiments.showing.show import legend, selection, tally
from soar.experiments.showing.sweep_curves import curves
from soar.experiments.showing.table_text import missing, texts, unit_of
from soar.experiments.table_result import TableResult
from soar.text import duration

_MARKS = {"held": "✓", "not held": "✗", "undecided": "?"}


def build(folder: Path) -> Path:
    """Make a page of all results in a folder, with a figure for each.

    Args:
        folder: holds TABLE-SCALE.json files as `soar reproduce` writes them

    Returns:
        The page.

    Raises:
        UserError: if there are no results, one is damaged, or nothing can be written
    """
    results = [table_file.load(path) for path in sorted(folder.glob("*-*.json"))]
    if not results:
        raise UserError(
            f"{folder}: there are no TABLE-SCALE.json files; soar reproduce --output {folder} makes them"
        )
    results.sort(key=lambda result: (ORDER.index(paper_of(result).id), result.scale))
    pairs = [(result, judged(result)) for result in results]
    for result in results:
        paper = paper_of(result)
        files.write(folder / f"{_name(result)}.svg", bars(result, title=result.table, unit=paper.unit))
        if _is_sweep(result):
            files.write(folder / f"{_name(result)}-curves.svg", curves(result, row_key=paper.row_key))
    page = folder / "README.md"
    lines = [*_head(pairs), *(line for pair in pairs for line in _section(*pair))]
    files.write(page, "\n".join(lines) + "\n")
    return page


def main(arguments: Sequence[str]) -> int:
    """Build the page of a folder."""
    if len(arguments) != 1:
        print("soar: expected one folder: python -m soar.experiments.showing.results_page DIR", file=sys.stderr)
        return 2
    try:
        print(build(Path(arguments[0])))
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2
    return 0


def _name(result: TableResult) -> str:
    return f"{result.table}-{result.scale}"


def _is_sweep(result: TableResult) -> bool:
    return VALIDATION in result.environment


def _command(result: TableResult) -> str:
    seeds = f" --seeds {result.seeds}" if result.seeds > 1 else ""
    return f"soar reproduce {result.table} --scale {result.scale}{seeds}"


def _head(pairs: Sequence[tuple[TableResult, Sequence[Judged]]]) -> list[str]:
    """Write what the page is, and a line for each table."""
    lines = [
        "# The paper's tables, reproduced",
        "",
        "Made by `python -m soar.experiments.showing.results_page` from the JSON files beside it, which",
        "`soar reproduce` wrote. Our experiments differ from the paper's: read each caution first.",
        "",
        "| table | what it holds | scale | seeds | numbers | claims |",
        "|---|---|---|---|---|---|",
    ]
    for result, found in pairs:
        cells = [cell for row in result.rows.values() for cell in row.values()]
        counted = f"{sum(bool(cell.values) for cell in cells)} of {len(cells)}"
        link = f"[{result.table}](#{_name(result).lower()})"
        verdicts = tally(found) if found else "none"
        what = re.split("[;:]", paper_of(result).gist)[0]
        lines.append(f"| {link} | {what} | {result.scale} | {result.seeds} | {counted} | {verdicts} |")
    every = [one for _, found in pairs for one in found]
    lines += ["", f"Claims of the paper over all tables: {tally(every)}.", ""]
    absent = [table for table in ORDER if table not in {result.table for result, _ in pairs}]
    if absent:
        lines += [f"Not measured here: {', '.join(absent)}; `soar reproduce TABLE` does it.", ""]
    if any(table.startswith("svhn") for table in absent):
        lines += ["Tables of SVHN need its files first: `soar data fetch svhn`.", ""]
    return lines


def _section(result: TableResult, found: Sequence[Judged]) -> list[str]:
    paper = paper_of(result)
    lines = [
        f"## {_name(result)}",
        "",
        f"{paper.gist}.",
        "",
        f"**Caution.** {result.caution}",
        "",
        *_table(result, paper),
        "",
        f"{legend(result, paper.unit)}; measured in {duration(result.seconds)} of one process."
        f" [Numbers]({_name(result)}.json), made by `{_command(result)}`.",
        "",
    ]
    if _is_sweep(result):
        lines += [f"{selection(result, paper.row_key)}.", ""]
    for places, reason, commands in missing(result):
        lines.append(f"- missing: {places}: {reason}" + "".join(f"; `{one}`" for one in commands))
    if _is_sweep(result):
        lines += ["", f"![accuracy along {paper.row_key}, {result.table}]({_name(result)}-curves.svg)"]
    lines += ["", f"![paper and ours, {result.table}]({_name(result)}.svg)", ""]
    return lines + _claims(found)


def _table(result: TableResult, paper: PaperTable) -> list[str]:
    """Write a cell as "paper → ours (difference)"."""
    columns = list(next(iter(result.rows.values()), {}))
    lines = [f"| {paper.row_key} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row, cells in result.rows.items():
        shown = []
        for column in columns:
            theirs, ours, difference = texts(cells[column], unit_of(result, column, paper.unit))
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
