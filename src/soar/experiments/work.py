"""Experiments from beginning to end: what is needed, the work, the tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from soar.errors import unknown
from soar.experiments.cache import Cache
from soar.experiments.experiment import Experiment, TableRow
from soar.experiments.gather import gather
from soar.experiments.jobs import Ending, Event, Executor, Job
from soar.experiments.plan import Plan, plan, timed
from soar.experiments.requests import jobs
from soar.experiments.result import Result


@dataclass(frozen=True, kw_only=True)
class Work:
    """What some experiments need, and how far it has come.

    Args:
        experiments: what to measure
        cache: what is there
        rows: names of the rows to work on
        plan: what is to be done
        endings: how it ended, by key
    """

    experiments: tuple[Experiment, ...]
    cache: Cache
    rows: Collection[str]
    plan: Plan
    endings: dict[str, Ending] = field(default_factory=dict)

    def begun(self) -> set[str]:
        """Return the keys of training runs that are resumed."""
        trainings = [job.key for job in self.plan.todo if job.kind == "train"]
        return {key for key in trainings if self.cache.condition(key).name == "unfinished"}

    def obstacles(self) -> list[str]:
        """Return which rows cannot be measured, why, and what would help, one line each."""
        lines = []
        for one in self.experiments:
            found: dict[str, list[TableRow]] = {}
            for row in one.rows:
                if row.missing and row.name in self.rows:
                    found.setdefault(row.missing, []).append(row)
            for why, rows in found.items():
                names = "all rows" if len(rows) == len(one.rows) > 1 else ", ".join(row.name for row in rows)
                commands = {row.command for row in rows if row.command}
                help_ = f"; {commands.pop()}" if len(commands) == 1 else ""
                lines.append(f"{one.name}: {names} ({why}{help_})")
        return lines

    def run(self, executor: Executor, listen: Callable[[Event], None]) -> bool:
        """Do what is to be done, and return whether all of it went well.

        Raises:
            KeyboardInterrupt: when a signal asked to stop; the same call resumes from there
        """
        if self.plan.todo:
            self.endings.update(executor.run(self.plan.todo, listen))
        return all(ending.status == "done" for ending in self.endings.values())

    def results(self, again: Callable[[Experiment], str] = lambda _: "") -> list[Result]:
        """Return every table with all numbers that are there, those of earlier calls included.

        Args:
            again: returns the command that measures an experiment
        """
        return [gather(one, self.cache, endings=self.endings, again=again(one)) for one in self.experiments]


def prepare(
    experiments: Sequence[Experiment],
    cache: Cache,
    *,
    only: Collection[str] = (),
    weights: Mapping[str, Path] | None = None,
    root: Path | None = None,
    device: str = "cpu",
    processes: int = 1,
) -> Work:
    """Find out what experiments need and what of it is there.

    Args:
        experiments: what to measure
        cache: where networks and numbers are kept
        only: rows to work on, by their name or the part of it behind the group; all when empty
        weights: files of the user's own by row, in place of training runs
        root: the folder of all datasets
        device: such as "cpu" or "cuda"
        processes: how many share each training

    Raises:
        UserError: if a row or a file does not exist
    """
    known = [row.name for one in experiments for row in one.rows]
    chosen = _rows(known, only, "flag --only") if only else set(known)
    given = (weights or {}).items()
    own = {row: str(file) for name, file in given for row in _rows(known, [name], "flag --weights")}
    needed: list[Experiment] = []
    found: list[Job] = []
    for one in experiments:
        rows = tuple(
            replace(row, weights=own[row.name], missing="") if row.name in own else row for row in one.rows
        )
        needed.append(replace(one, rows=rows))
        mine = [row.name for row in rows if row.name in chosen]
        if mine:
            found += jobs(needed[-1], cache, only=mine, root=root, device=device, processes=processes)
    planned = timed(plan(found, cache), cache)
    return Work(experiments=tuple(needed), cache=cache, rows=chosen, plan=planned)


def _rows(known: Sequence[str], names: Collection[str], where: str) -> set[str]:
    """Return the full names of rows."""
    found: set[str] = set()
    for name in names:
        matching = {row for row in known if name in (row, row.rpartition(" / ")[2])}
        if not matching:
            raise unknown("row", name, dict.fromkeys(known), where)
        found |= {name} if name in matching else matching
    return found
