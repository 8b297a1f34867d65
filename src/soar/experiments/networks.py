"""The networks of an experiment: recipes, and what differs from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from soar import recipes
from soar.errors import UserError, unknown
from soar.experiments.experiment import Network
from soar.experiments.schema import NetworkTable, Scale, Table, at_scale, typed
from soar.recipes.recipe import OPEN_SECTIONS


@dataclass(frozen=True, kw_only=True)
class Networks:
    """The networks that a file may name.

    Args:
        tables: by name, as files have them; each may refer to those before it
        origin: the file, for messages
        scale: the name of the scale; empty where the file has none
        settings: those of the scale
        recipe: of networks that name none
        changes: fields of all recipes
        flags: fields that override everything
        made: networks that were asked for before
    """

    tables: Mapping[str, Table]
    origin: str
    scale: str
    settings: Scale | None
    recipe: str
    changes: Table
    flags: recipes.Overrides
    made: dict[str, Network] = field(default_factory=dict)

    def network(self, name: str) -> Network:
        """Return a network with its first seed.

        Raises:
            UserError: if what its table says makes no sense
        """
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def _make(self, name: str) -> Network:
        where = f"{self.origin}: network '{name}'"
        parts = [typed(at_scale(one, self.size(name)), NetworkTable, where) for one in self._parts(name)]

        def last(key: str) -> Any:
            return next((getattr(part, key) for part in reversed(parts) if getattr(part, key)), None)

        if not (last("recipe") or self.recipe):
            raise UserError(f"{where}: recipe is missing")
        table = recipes.table_of(last("recipe") or self.recipe)
        for fields in (self.changes, *(part.fields for part in parts)):
            table = recipes.apply(table, recipes.flat(fields))
        if self.settings is not None and self.size(name) == self.scale:
            table = recipes.apply(table, recipes.flat(self.settings.fields))
            table |= {key: self.settings.limited(table[key], key) for key in OPEN_SECTIONS}
        for part in parts if self.size(name) == "smoke" else ():
            table = recipes.apply(table, recipes.flat(part.smoke))
        table = recipes.apply(table, {**self.flags, "description": ""})
        start = None
        if last("start_from"):
            # Where its weights are depends on where networks are kept.
            self._check_before(last("start_from"), name, "start_from")
            start = self.network(last("start_from"))
            table = recipes.apply(table, {"training.start_from": None})
        recipe = recipes.from_table(table, f"network '{name}'")
        recipe = replace(recipe, seed=recipe.seed + (last("seed") or 0))
        return Network(title=parts[-1].title or name, recipe=recipe, start=start, about=parts[-1].about)

    def size(self, name: str) -> str:
        """Return the scale whose size a network has."""
        is_full = self.scale and any(one.get("size") == "paper" for one in self._parts(name))
        return "paper" if is_full else self.scale

    def _parts(self, name: str) -> list[Table]:
        """Return the tables that make up a network: of all that it is like, then its own."""
        like, parts = self.tables[name].get("like", ()), []
        for other in [like] if isinstance(like, str) else like:
            self._check_before(other, name, "like")
            parts += self._parts(other)
        return [*parts, self.tables[name]]

    def _check_before(self, other: str, name: str, where: str) -> None:
        names = list(self.tables)
        before = names[: names.index(name)]
        if other not in before:
            raise unknown("network", other, before, f"{self.origin}: {where} of '{name}'")
