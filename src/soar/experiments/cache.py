"""What was trained and measured already, by the hash of everything that decides it.

A cache folder holds

    networks/KEY/       a run folder; KEY is the hash of its recipe and of the network it starts from
    results/KEY.json    one measurement
    locks/KEY           which key some process works on

Nothing in it is ever deleted. What is damaged is set aside under another name and made again.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from soar import checkpoints, recipes
from soar.errors import UserError
from soar.experiments.hashing import digest
from soar.locks import lock

Log = Callable[[str], None]
"""takes a line for the reader"""

FORMAT = 1
KIND = "measurement"


class Condition(NamedTuple):
    """The condition of a network in the cache.

    Args:
        name: "absent"; "unfinished", to be resumed; "trained"; "stopped" by a guard; "damaged"
        why: the guard's verdict, or what is damaged
    """

    name: Literal["absent", "unfinished", "trained", "stopped", "damaged"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.why})" if self.why else self.name


class Cache:
    """A folder of networks and results.

    Args:
        folder: need not exist yet
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def network(self, key: str) -> Path:
        """Return the run folder of a network, whether it exists or not."""
        return self.folder / "networks" / key

    def result(self, key: str) -> Path:
        """Return the file of a measurement, whether it exists or not."""
        return self.folder / "results" / f"{key}.json"

    def journal(self, key: str) -> Path:
        """Return the file in which an unfinished measurement keeps what its attacks have found."""
        return self.result(key).with_suffix(".partial.jsonl")

    def is_trained(self, key: str) -> bool:
        """Return whether a network is there and whole."""
        return self.condition(key).name == "trained"

    def condition(self, key: str) -> Condition:
        """Compare the files of a network's run with what was written."""
        from soar.training.result import Outcome

        run = self.network(key)
        if not (run / "recipe.toml").exists():
            started = checkpoints.available(run)
            return Condition("damaged", "recipe.toml is missing") if started else Condition("absent")
        try:
            recipes.load(run / "recipe.toml")
            outcome = Outcome.load(run)
        except (UserError, OSError) as error:
            return Condition("damaged", str(error).removeprefix(f"{run}{os.sep}"))
        if outcome is not None and outcome.status != "finished":
            return Condition("stopped", outcome.reason)
        if outcome is None:
            return Condition("unfinished")
        fault = _fault_of_best(run)
        return Condition("damaged", fault) if fault else Condition("trained")

    def load_result(self, key: str) -> dict[str, Any] | None:
        """Return a measurement, or None where there is none that is whole; a damaged one is warned about."""
        from soar.evaluation.files import read_json

        def whole(content: dict[str, Any]) -> dict[str, Any]:
            written = content.pop("sha256", None)
            if written != digest(content):
                raise ValueError("it has changed since it was written")
            if content["key"] != key:
                raise ValueError(f"it belongs to {content['key']}")
            return content

        if not self.result(key).exists():
            return None
        try:
            return read_json(self.result(key), kind=KIND, version=FORMAT, make=whole)
        except UserError as error:
            warnings.warn(f"{error}; it is not used", stacklevel=2)
            return None

    def save_result(self, key: str, found: dict[str, Any]) -> None:
        """Write a measurement, whole or not at all; a damaged one in its place is set aside."""
        from soar.evaluation.files import as_text, write_json

        content = {"format": FORMAT, "kind": KIND, "key": key, **found}
        # The file holds null where a number is not finite, and that is what is summed up.
        content["sha256"] = digest(json.loads(as_text(content)))
        if self.result(key).exists() and self.load_result(key) is None:
            self.set_aside(self.result(key))
        write_json(content, self.result(key))

    def set_aside(self, path: Path) -> Path:
        """Rename something damaged to NAME.damaged-N and return where it is now."""
        number = 1
        while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
            number += 1
        return path.rename(aside)

    @contextmanager
    def reserved(self, key: str, log: Log) -> Iterator[None]:
        """Keep other processes from working on the same key; wait for one that does."""
        with lock(self.folder / "locks" / key, "another process works on the same", log):
            yield


def validation_scores(run: Path) -> dict[str, float]:
    """Return clean and robust accuracy on held-out images of a run's best checkpoint, where there are any."""
    best = checkpoints.best(run)
    scores = json.loads((best / "state.json").read_text(encoding="utf-8"))["best"] if best else None
    return {name: value for name, value in (scores or {}).items() if value is not None}


def _fault_of_best(run: Path) -> str:
    """Return what is wrong with the checkpoint that validation chose; another one would change numbers."""
    best = checkpoints.best(run)
    if best is None:
        return "there is no checkpoint"
    fault = checkpoints.damage(best)
    return f"checkpoint {best.name}: {fault}" if fault else ""
