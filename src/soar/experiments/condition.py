"""What there is of a network in the cache, and whether it is whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal, NamedTuple

from soar import recipes
from soar.errors import UserError
from soar.experiments.hashing import is_hash_of, recipe_hash


class Condition(NamedTuple):
    """What there is of a network.

    Args:
        name: "absent"; "unfinished", to go on with; "trained"; "stopped" by a guard; "damaged"
        why: the guard's verdict, or what is damaged
    """

    name: Literal["absent", "unfinished", "trained", "stopped", "damaged"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.why})" if self.why else self.name


def condition_of(run: Path, key: str) -> Condition:
    """Compare the recipe of a run with its key, and its files with what was written.

    Args:
        run: the run folder, which need not exist
        key: the hash that its recipe should have
    """
    from soar import checkpoints
    from soar.training.result import Outcome

    if not (run / "recipe.toml").exists():
        started = checkpoints.available(run)
        return Condition("damaged", "recipe.toml is missing") if started else Condition("absent")
    try:
        recipe = recipes.load(run / "recipe.toml")
        outcome = Outcome.load(run)
    except (UserError, OSError) as error:
        return Condition("damaged", str(error).removeprefix(f"{run}{os.sep}"))
    if not is_hash_of(key, recipe):
        return Condition("damaged", f"recipe.toml has another hash, {recipe_hash(recipe)}")
    if outcome is None:
        fault = _fault_of_unfinished(run)
        return Condition("damaged", fault) if fault else Condition("unfinished")
    if outcome.status != "finished":
        return Condition("stopped", outcome.reason)
    fault = _fault_of_best(run)
    return Condition("damaged", fault) if fault else Condition("trained")


def _fault_of_best(run: Path) -> str:
    """Say what is wrong with the checkpoint that validation chose; another one would give other numbers."""
    from soar import checkpoints

    best = checkpoints.best(run)
    if best is None:
        return "there is no checkpoint"
    fault = checkpoints.damage(best)
    return f"checkpoint {best.name}: {fault}" if fault else ""


def _fault_of_unfinished(run: Path) -> str:
    """Say what keeps a training from going on; without any usable checkpoint it begins again."""
    from soar import checkpoints

    usable = next((one for one in reversed(checkpoints.available(run)) if not checkpoints.damage(one)), None)
    if usable is None:
        return ""
    rows = json.loads((usable / "state.json").read_text())["metrics_rows"]
    metrics = run / "metrics.jsonl"
    written = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
    return "" if written >= rows else f"metrics.jsonl has {written} of {rows} rows"
