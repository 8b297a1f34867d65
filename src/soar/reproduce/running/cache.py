"""What was trained and measured already, by the hash of everything that decides it.

A cache folder holds

    networks/KEY/       a run folder; KEY is the hash of its recipe and of the network it starts from
    results/KEY.json    one measurement
    locks/KEY           which key some process works on

Nothing in it is ever deleted. What is damaged is set aside under another name and made again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from soar import recipes
from soar.errors import UserError
from soar.locks import lock
from soar.recipes import Recipe
from soar.reproduce.running.condition import Condition, condition_of
from soar.reproduce.running.hashing import digest
from soar.reproduce.running.hashing import recipe_hash as recipe_hash

Say = Callable[[str], None]

FORMAT = 1
KIND = "measurement"


class Cache:
    """A folder of networks and results.

    Args:
        folder: need not exist yet
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def network(self, key: str) -> Path:
        """Give the run folder of a network, whether it is there or not."""
        return self.folder / "networks" / key

    def result(self, key: str) -> Path:
        """Give the file of a measurement, whether it is there or not."""
        return self.folder / "results" / f"{key}.json"

    def is_trained(self, key: str, recipe: Recipe) -> bool:
        """Say whether a network is there, whole, and made by this recipe."""
        if self.condition(key).name != "trained":
            return False
        stored = recipes.load(self.network(key) / "recipe.toml")
        # What it starts from has a part in the key, which was compared; here it is a key, there a path.
        return recipe_hash(stored, "any") == recipe_hash(recipe, "any")

    def condition(self, key: str) -> Condition:
        """Say what there is of a network."""
        return condition_of(self.network(key), key)

    def load_result(self, key: str) -> dict[str, Any] | None:
        """Give a measurement, or None where there is none that is whole; a damaged one is warned about."""
        if not self.result(key).exists():
            return None
        try:
            return self._read_result(key)
        except UserError as error:
            warnings.warn(f"{error}; it is not used", stacklevel=2)
            return None

    def save_result(self, key: str, found: dict[str, Any]) -> None:
        """Write a measurement, whole or not at all; a damaged one in its place is set aside."""
        from soar.evaluation.files import as_text, write_json

        content = {"format": FORMAT, "kind": KIND, "key": key, **found}
        # The file says null where a number is not finite, and that is what is summed up.
        content["sha256"] = digest(json.loads(as_text(content)))
        if self.result(key).exists() and self.load_result(key) is None:
            self.set_aside(self.result(key))
        write_json(content, self.result(key))

    def set_aside(self, path: Path) -> Path:
        """Rename something damaged to NAME.damaged-N, and say where it is now."""
        number = 1
        while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
            number += 1
        return path.rename(aside)

    @contextmanager
    def reserved(self, key: str, say: Say) -> Iterator[None]:
        """Keep other processes from working on the same key; wait for one that does."""
        with lock(self.folder / "locks" / key, "another process works on the same", say):
            yield

    def started(self, recipe: Recipe, start: str) -> Recipe:
        """Let a recipe begin with the weights of a network of the cache; "" leaves it as it is."""
        if not start:
            return recipe
        return replace(recipe, training=replace(recipe.training, start_from=str(self.network(start))))

    def _read_result(self, key: str) -> dict[str, Any]:
        from soar.evaluation.files import read_json

        def whole(content: dict[str, Any]) -> dict[str, Any]:
            written = content.pop("sha256", None)
            if written != digest(content):
                raise ValueError("it has changed since it was written")
            if content["key"] != key:
                raise ValueError(f"it belongs to {content['key']}")
            return content

        return read_json(self.result(key), kind=KIND, version=FORMAT, make=whole)
