"""Plans, tables and claims for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from soar.experiments.gather import VALIDATION
from soar.experiments.showing.table_text import lines, missing, number
from soar.text import duration, percent

if TYPE_CHECKING:
    from rich.console import Console

    from soar.paper.tables import PaperTable
    from soar.experiments.claims import Judged
    from soar.experiments.planning.plan import Plan
    from soar.experiments.job import Job
    from soar.experiments.table_result import TableResult

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
    """Say what will be trained and measured, what is there, and how long it will take.

    Args:
        console: where to print
        planned: the plan
        room: how many jobs run at once
        begun: keys of trainings that go on where they were interrupted
        obstacles: what cannot be measured and why, a line each
        whole: name every job, not only the first trainings
    """
    for kind, heading, noun in (("train", "to train", "network"), ("measure", "to measure", "number")):
        jobs = [job for job in planned.todo if job.kind == kind]
        if kind == "measure" and not any(job.kind == kind for job in (*jobs, *planned.there)):
            continue
        seconds = sum(job.seconds for job in jobs)
        time = f", about {duration(seconds)} on one core" if seconds else ""
        _say(console, f"{heading:<{_LEFT}}{_count(len(jobs), noun)}{time}", "bold")
        listed = jobs if whole else jobs[:_LISTED] if kind == "train" else []
        for job in listed:
            notes = [duration(job.seconds)] if job.seconds else []
            notes += ["goes on"] if job.key in begun else []
            _say(console, f"{'':<{_LEFT}}{job.title}" + (f" ({', '.join(notes)})" if notes else ""))
        if kind == "train" and len(listed) < len(jobs):
            _say(console, f"{'':<{_LEFT}}and {len(jobs) - len(listed)} more, named by --plan", "dim")
    _say(console, f"{'already there':<{_LEFT}}{_inventory(planned.there)}", "bold")
    for k, line in enumerate(obstacles):
        said = f"{'' if k else 'not possible':<{_LEFT}}{line}"
        _say(console, textwrap.fill(said, console.width, subsequent_indent=" " * _LEFT), "yellow")
    if planned.todo:
        at_once = "one job at a time" if room == 1 else f"{room} jobs at once"
        time = f"about {duration(planned.seconds(room))}, " if planned.work else ""
        known = f"; times go by {_count(planned.timed_by, 'job')} done before" if planned.timed_by else ""
        _say(console, f"{'together':<{_LEFT}}{time}{at_once}{known}", "bold")


def table(console: Console, result: TableResult, paper: PaperTable) -> None:
    """Print the paper's number, ours and the difference side by side, then what is missing and why.

    Args:
        console: where to print; a wide table is broken to its width
        result: the table
        paper: what the paper says of it
    """
    from rich.rule import Rule

    console.print()
    console.print(Rule(f"[bold]{result.table}[/], scale {result.scale}", align="left", style="dim"))
    _say(console, paper.gist)
    _say(console, f"caution: {result.caution}", "yellow")
    for part in lines(result, paper.unit, console.width, paper.row_key):
        console.print()
        for k, line in enumerate(part):
            _say(console, line, "bold" if k == 0 else "dim" if k == 1 else "", wrap=False)
    console.print()
    _say(console, legend(result, paper.unit), "dim")
    if VALIDATION in result.environment:
        _say(console, selection(result, paper.row_key))
    for places, reason, commands in missing(result):
        _say(console, f"missing: {places}: {reason or 'not measured'}")
        for command in commands:
            _say(console, f"  {command}", wrap=False)


def claims(console: Console, judged: Sequence[Judged]) -> None:
    """Print what the paper claims, and whether our numbers bear it out and why."""
    from rich.table import Table
    from rich.text import Text

    if not judged:
        return
    _say(console, f"\nclaims of the paper on our numbers: {tally(judged)}", "bold")
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column()
    for one in judged:
        source = f" ({one.claim.source})" if one.claim.source else ""
        text = Text.assemble(one.claim.text, (source, "dim"), (f"\n{one.why}", "dim"))
        made.add_row(Text(one.verdict, style=VERDICTS[one.verdict]), text)
    console.print(made)


def tally(judged: Iterable[Judged]) -> str:
    """Count verdicts in words."""
    verdicts: list[str] = [one.verdict for one in judged]
    return ", ".join(f"{verdicts.count(name)} {name}" for name in VERDICTS)


def legend(result: TableResult, unit: str) -> str:
    """Say what the numbers are and how sure ours are."""
    said = [f"unit: {unit}", "diff: ours minus the paper's"]
    if result.examples:
        said.append(f"ours on {result.examples} test images")
        many = result.seeds > 1
        said.append(f"mean ± standard deviation of {result.seeds} trainings" if many else "one training")
    widths = [
        cell.high - cell.low
        for cells in result.rows.values()
        for cell in cells.values()
        if cell.low is not None and cell.high is not None
    ]
    if widths:
        said.append(f"95 % interval of each at most ±{number(max(widths) / 2, unit)}")
    return "; ".join(said)


def text_of(console: Console) -> str:
    """Give what a recording console has shown, without spaces that nobody sees."""
    return "\n".join(line.rstrip() for line in console.export_text().strip().splitlines()) + "\n"


def selection(result: TableResult, row_key: str) -> str:
    """Say which row of a sweep validation selects; the paper selected on the test set."""
    ranked: dict[str, float] = result.environment[VALIDATION]
    if not ranked:
        return "selected on validation: nothing, no network is trained"
    (best, first), *rest = sorted(ranked.items(), key=lambda one: -one[1])
    others = ", ".join(f"{row} ({robust:.1f})" for row, robust in rest)
    then = f"; then {others}" if others else ""
    return f"selected on validation: {row_key} {best}, robust accuracy {percent(first / 100)}{then}"


def _inventory(jobs: Sequence[Job]) -> str:
    trained = sum(job.kind == "train" for job in jobs)
    parts = [_count(trained, "network"), _count(len(jobs) - trained, "number")]
    return " and ".join(parts)


def _count(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}" if count == 1 else f"{count or 'no'} {noun}s"


def _say(console: Console, text: str, style: str = "", *, wrap: bool = True) -> None:
    """Print a line in which brackets mean nothing special."""
    console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=not wrap)
