"""Tables of the paper from beginning to end: what is needed, the work, the numbers side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from soar.errors import UserError, unknown
from soar.paper.tables import PaperTable
from soar.experiments.claims import Judged, judge
from soar.experiments.loading import load
from soar.experiments.gather import gather
from soar.experiments.measuring.measurement import Experiment, RowPlan
from soar.experiments.planning import experiments
from soar.experiments.planning.pace import timed
from soar.experiments.planning.plan import Plan, plan
from soar.experiments.planning.scales import SCALES, Scale
from soar.experiments.cache import Cache
from soar.experiments.job import Ending, Event, Executor, Job
from soar.experiments.table_result import TableResult

ORDER = (
    *("adv_linf", "autoattack_linf", "soar_complete", "foar", "bbox", "confidence", "number-of-samples"),
    *("relaxation", "soar-model-capacity", "cure_llr", "trades", "mart", "mma", "adv_l2"),
    *("cifar10_l2_autoattack", "svhn_whitebox", "svhn_blackbox", "svhn_l2"),
    *("adv_linf_with_std", "bbox_with_std", "cost", "theory"),
)
"""all tables, those that matter most for what the paper says first"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What some tables need at a scale, and how far it has come.

    Args:
        experiments: what each table needs
        scale: how large
        cache: what is there
        seeds: how many trainings each number is the mean of
        weights: files of the user's own by row
        rows: names of the rows to work on
        plan: what is to be done
        endings: how it ended, by key
    """

    experiments: tuple[Experiment, ...]
    scale: Scale
    cache: Cache
    seeds: int
    weights: Mapping[str, str]
    rows: Collection[str]
    plan: Plan
    endings: dict[str, Ending] = field(default_factory=dict)

    def begun(self) -> set[str]:
        """Give the keys of trainings that go on where they were interrupted."""
        trainings = [job.key for job in self.plan.todo if job.kind == "train"]
        return {key for key in trainings if self.cache.condition(key).name == "unfinished"}

    def obstacles(self) -> list[str]:
        """Say which rows cannot be measured, why, and what would help."""
        said = []
        for one in self.experiments:
            found: dict[str, list[RowPlan]] = {}
            for row in one.rows:
                if row.missing and row.name in self.rows and row.name not in self.weights:
                    found.setdefault(row.missing, []).append(row)
            for why, rows in found.items():
                names = "all rows" if len(rows) == len(one.rows) > 1 else ", ".join(row.name for row in rows)
                commands = {row.command for row in rows if row.command}
                help_ = f"; {commands.pop()}" if len(commands) == 1 else ""
                said.append(f"{one.table.id}: {names} ({why}{help_})")
        return said

    def run(self, executor: Executor, listen: Callable[[Event], None]) -> bool:
        """Do what is to be done, and tell whether all of it went well.

        Raises:
            KeyboardInterrupt: when a signal asked to stop; the same call goes on from there
        """
        if self.plan.todo:
            self.endings.update(executor.run(self.plan.todo, listen))
        return all(ending.status == "done" for ending in self.endings.values())

    def results(self) -> list[TableResult]:
        """Give every table with all numbers that are there, those of earlier calls included."""
        return [
            gather(one, self.scale, self.cache, seeds=self.seeds, weights=self.weights, endings=self.endings)
            for one in self.experiments
        ]


def tables(names: Sequence[str]) -> tuple[str, ...]:
    """Give the ids of tables that were asked for, each once; `all` means all of them.

    Raises:
        UserError: if there is no such table

    >>> tables(["foar", "foar"]), len(tables(["all"]))
    (('foar',), 22)
    """
    for name in names:
        if name not in (*ORDER, "all"):
            raise unknown("table", name, (*ORDER, "all"), "soar reproduce TABLE")
    return ORDER if "all" in names else tuple(dict.fromkeys(names))


def prepare(
    ids: Sequence[str],
    scale: Scale,
    cache: Cache,
    *,
    seeds: int = 1,
    only: Collection[str] = (),
    weights: Mapping[str, Path] | None = None,
    root: Path | None = None,
    device: str = "cpu",
    processes: int = 1,
) -> Work:
    """Find out what tables need and what of it is there.

    Args:
        ids: tables
        scale: how large
        cache: where networks and numbers are kept
        seeds: how many trainings each number is the mean of
        only: rows to work on, by their name or the part of it behind the group; all when empty
        weights: files of the user's own by row
        root: the folder of all data sets
        device: such as "cpu" or "cuda"
        processes: how many share each training

    Raises:
        UserError: if a row or a file does not exist
    """
    needed = tuple(experiments.experiment(one, scale, root) for one in ids)
    rows = _rows(needed, only, "flag --only") if only else {row.name for one in needed for row in one.rows}
    own = {
        row: str(file)
        for name, file in (weights or {}).items()
        for row in _rows(needed, [name], "flag --weights")
    }
    jobs: list[Job] = []
    for one in needed:
        mine = [row.name for row in one.rows if row.name in rows]
        if mine:
            jobs += experiments.jobs(
                one, scale, cache, seeds=seeds, only=mine, root=root, device=device, weights=own
            )
    return Work(
        experiments=needed,
        scale=scale,
        cache=cache,
        seeds=seeds,
        weights=own,
        rows=rows,
        plan=timed(plan([job.shared_by(processes) for job in jobs], cache), cache),
    )


def paper_of(result: TableResult) -> PaperTable:
    """Give what the paper says of a table."""
    if result.scale not in SCALES:
        raise UserError(f"got a table of scale '{result.scale}', expected one of {', '.join(SCALES)}")
    return experiments.experiment(result.table, SCALES[result.scale]).table


def judged(result: TableResult) -> tuple[Judged, ...]:
    """Hold the paper's claims about a table against our numbers."""
    return judge(load(result.table, scale=result.scale).claims, result)


def _rows(needed: Sequence[Experiment], names: Collection[str], where: str) -> set[str]:
    """Give the full names of rows."""
    known = [row.name for one in needed for row in one.rows]
    found: set[str] = set()
    for name in names:
        matching = {row for row in known if name in (row, row.rpartition(" / ")[2])}
        if not matching:
            raise unknown("row", name, dict.fromkeys(known), where)
        found |= {name} if name in matching else matching
    return found
