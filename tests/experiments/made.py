"""Small made-up jobs, stores, executors and results for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from soar import recipes
from soar.experiments.cache import Cache
from soar.experiments.experiment import Experiment, TableRow
from soar.experiments.jobs import Ending, Event, Job
from soar.experiments.result import Cell, Result

RECIPE = recipes.load("demo-standard").as_table()


def training(key: str, *needs: str, seconds: float = 60) -> Job:
    payload: dict[str, Any] = {"recipe": RECIPE}
    return Job(key=key, kind="train", title=f"train {key}", payload=payload, needs=needs, seconds=seconds)


def measuring(key: str, *needs: str, seconds: float = 5) -> Job:
    return Job(key=key, kind="measure", title=f"measure {key}", payload={}, needs=needs, seconds=seconds)


class Store(Cache):
    """Holds whatever keys it is told to hold."""

    def __init__(self, *keys: str) -> None:
        super().__init__(Path())
        self.keys = set(keys)

    def is_trained(self, key: str) -> bool:
        return key in self.keys

    def load_result(self, key: str) -> dict[str, Any] | None:
        return {"value": 1.0} if key in self.keys else None


class Pretender:
    """An executor that calls a function for each job; one that raises has failed."""

    def __init__(self, work: Callable[[Job], None]) -> None:
        self.work = work
        self.done: list[str] = []

    def run(self, jobs: Sequence[Job], listen: Callable[[Event], None]) -> dict[str, Ending]:
        endings: dict[str, Ending] = {}
        for job in jobs:
            bad = [key for key in job.needs if key in endings and endings[key].status != "done"]
            if bad:
                endings[job.key] = Ending("skipped", f"it needs {bad[0]}")
            else:
                listen(Event(job, "started"))
                try:
                    self.work(job)
                    endings[job.key] = Ending("done", seconds=1.5)
                    self.done.append(job.key)
                except ValueError as error:
                    endings[job.key] = Ending("failed", str(error))
            listen(Event(job, "ended", ending=endings[job.key]))
        return endings


def result(**changes: Any) -> Result:
    rows = {
        "WideResNet / ADV": {
            "Standard": Cell(paper=87.14, missing="not trained here", command="soar reproduce made"),
            "PGD20": Cell(paper=45.64, missing="not trained here", command="soar reproduce made"),
        },
        "ResNet / ADV": {
            "Standard": Cell(paper=80.64, paper_std=0.4, values=(60.0, 62.0), low=55.0, high=65.0),
            "PGD20": Cell(
                paper=42.86,
                values=(30.0, 31.0),
                low=25.5,
                high=34.5,
                correct="10",
                each=(1.5, 2.25),
            ),
        },
    }
    fields: dict[str, Any] = {
        "name": "adv_linf",
        "title": "Accuracy under attacks",
        "scale": "small",
        "seeds": 2,
        "examples": 500,
        "row_key": "method",
        "caution": "Smaller than the paper's.",
        "rows": rows,
    }
    return Result(**{**fields, **changes})


def row_of(experiment: Experiment, name: str) -> TableRow:
    return next(row for row in experiment.rows if row.name == name)


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
