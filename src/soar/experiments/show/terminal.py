"""Plans, tables and claims for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from soar.experiments.show.text import lines, missing, number
from soar.text import duration, percent

if TYPE_CHECKING:
    from rich.console import Console

    from soar.experiments.claims import Judged
    from soar.experiments.jobs import Job
    from soar.experiments.plan import Plan
    from soar.experiments.result import Result

VERDICTS = {"held": "green", "not held": "red", "undecided": "yellow"}
_LISTED = 10
_LEFT = 15  # the width of what stands before a line of the plan


def plan(
    console: Console,
    planned: Plan,
    *,
    room: int,
    begun: Collection[str] = (),
    obstacles: Sequence[str] = (),
    whole: bool = False,
) -> None:
    """Print what will be trained and measured, what is there, and how long it will take.

    Args:
        console: where to print
        planned: the plan
        room: how many jobs run at once
        begun: keys of training runs that are resumed
        obstacles: what cannot be measured and why, a line each
        whole: name every job, not only the first training runs
    """
    for kind, heading, noun in (("train", "to train", "network"), ("measure", "to measure", "number")):
        jobs = [job for job in planned.todo if job.kind == kind]
        if kind == "measure" and not any(job.kind == kind for job in (*jobs, *planned.there)):
            continue
        seconds = sum(job.seconds for job in jobs)
        time = f", about {duration(seconds)} on one core" if seconds else ""
        _print(console, f"{heading:<{_LEFT}}{_count(len(jobs), noun)}{time}", "bold")
        listed = jobs if whole else jobs[:_LISTED] if kind == "train" else []
        for job in listed:
            notes = [duration(job.seconds)] if job.seconds else []
            notes += ["resumed"] if job.key in begun else []
            known = f" ({', '.join(notes)})" if notes else ""
            about = f": {job.about}" if job.about else ""
            _print(console, f"{'':<{_LEFT}}{job.title}{known}{about}", wrap=False)
        if kind == "train" and len(listed) < len(jobs):
            _print(console, f"{'':<{_LEFT}}and {len(jobs) - len(listed)} more, named by --plan", "dim")
    _print(console, f"{'already there':<{_LEFT}}{_inventory(planned.there)}", "bold")
    for k, line in enumerate(obstacles):
        text = f"{'' if k else 'not possible':<{_LEFT}}{line}"
        _print(console, textwrap.fill(text, console.width, subsequent_indent=" " * _LEFT), "yellow")
    if planned.todo:
        at_once = "one job at a time" if room == 1 else f"{room} jobs at once"
        time = f"about {duration(planned.seconds(room))}, " if planned.work else ""
        known = f"; timed by {_count(planned.timed_by, 'job')} done before" if planned.timed_by else ""
        _print(console, f"{'together':<{_LEFT}}{time}{at_once}{known}", "bold")


def table(console: Console, result: Result, *, marked: Sequence[str] = ()) -> None:
    """Print a table, then what is missing in it and why.

    Args:
        console: where to print; a wide table is broken to its width
        result: the table
        marked: the best row, set in bold, or those tied for the best
    """
    from rich.rule import Rule

    at = f", scale {result.scale}" if result.scale else ""
    console.print()
    console.print(Rule(f"[bold]{result.name}[/]{at}", align="left", style="dim"))
    _print(console, result.title)
    if result.caution:
        _print(console, f"caution: {result.caution}", "yellow")
    for part in lines(result, console.width):
        console.print()
        for k, (row, line) in enumerate(zip(("", "", *result.rows), part, strict=True)):
            bold = k == 0 or row in marked
            _print(console, line, "bold" if bold else "dim" if k == 1 else "", wrap=False)
    console.print()
    _print(console, legend(result), "dim")
    if len(marked) > 1:
        _print(console, f"tied for the best: {', '.join(marked)} (95% intervals of differences include 0)")
    if result.validation:
        _print(console, selection(result))
    for places, reason, commands in missing(result):
        _print(console, f"missing: {places}: {reason or 'not measured'}")
        for command in commands:
            _print(console, f"  {command}", wrap=False)


def claims(console: Console, judged: Sequence[Judged]) -> None:
    """Print what the paper claims, and whether our numbers support it and why."""
    from rich.table import Table
    from rich.text import Text

    if not judged:
        return
    _print(console, f"\nclaims of the paper on our numbers: {tally(judged)}", "bold")
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column()
    for one in judged:
        source = f" ({one.claim.source})" if one.claim.source else ""
        text = Text.assemble(one.claim.text, (source, "dim"), (f"\n{one.why}", "dim"))
        made.add_row(Text(one.verdict, style=VERDICTS[one.verdict]), text)
    console.print(made)


def tally(judged: Iterable[Judged]) -> str:
    """Return the number of each verdict in words."""
    verdicts: list[str] = [one.verdict for one in judged]
    return ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)


def legend(result: Result) -> str:
    """Return what the numbers are and how certain ours are."""
    parts = [f"unit: {result.unit}"]
    parts += ["diff: ours minus the paper's"] if result.has_paper else []
    if result.examples:
        ours = "ours on " if result.has_paper else ""
        images = f"{ours}{result.examples} {result.split} images"
        parts.append(images + (f" of {result.data}" if result.data else ""))
        parts.append(_training_runs(result))
    cells = [cell for cells in result.rows.values() for cell in cells.values()]
    widths = [one.high - one.low for one in cells if one.low is not None and one.high is not None]
    if widths:
        parts.append(f"95% interval of each at most ±{number(max(widths) / 2, result.unit)}")
    return "; ".join(parts)


def _training_runs(result: Result) -> str:
    """Return how many training runs the numbers are means of."""
    most = max(len(cell.values or ()) for cells in result.rows.values() for cell in cells.values())
    if result.seeds > 1:
        return f"mean ± standard deviation of {result.seeds} training runs"
    return f"one training; with ±, mean and standard deviation of {most}" if most > 1 else "one training"


def text_of(console: Console) -> str:
    """Return what a recording console has shown, without trailing spaces."""
    return "\n".join(line.rstrip() for line in console.export_text().strip().splitlines()) + "\n"


def selection(result: Result) -> str:
    """Return which row validation selects, and by how much; the paper selected on the test set."""
    if not result.validation:
        return "selected on validation: nothing, no network is trained"
    (best, first), *rest = result.validation.items()
    others = ", ".join(f"{row} ({robust:.1f})" for row, robust in rest)
    then = f"; then {others}" if others else ""
    return f"selected on validation: {result.row_key} {best}, robust accuracy {percent(first / 100)}{then}"


def _inventory(jobs: Sequence[Job]) -> str:
    trained = sum(job.kind == "train" for job in jobs)
    parts = [_count(trained, "network"), _count(len(jobs) - trained, "number")]
    return " and ".join(parts)


def _count(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}" if count == 1 else f"{count or 'no'} {noun}s"


def _print(console: Console, text: str, style: str = "", *, wrap: bool = True) -> None:
    """Print a line in which brackets mean nothing special."""
    console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=not wrap)
