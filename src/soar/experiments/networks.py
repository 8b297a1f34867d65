"""The networks of an experiment's TOML file: recipes, what differs from them, and how large all of it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from soar import recipes
from soar.errors import UserError, unknown
from soar.experiments.experiment import Training
from soar.options import convert
from soar.recipes.recipe import OPEN_SECTIONS

Table = dict[str, Any]
Wanted = TypeVar("Wanted")
_NAMES = {"smoke", "small", "paper"}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large networks, trainings and attacks are: a table [scales.NAME]."""

    examples: int
    """How many test images are attacked."""
    fewer: dict[str, int] = field(default_factory=dict)
    """How many by attacks that need thousands of predictions, by the attack's name."""
    caution: str
    """How experiments differ from the paper's, shown with every number."""
    pass_seconds: float
    """Roughly the time of a forward and backward pass of one image through a narrow or, at paper scale, a full
    ResNet-10; measured on one core of a server, at paper scale assumed for a GPU."""
    fields: Table = field(default_factory=dict)
    """Fields of every recipe."""
    limits: dict[str, Table] = field(default_factory=dict)
    """By section of a recipe, what becomes of options that it has: a number is the largest allowed, a text takes
    the place of another. Those of section attack limit measurements."""

    def limited(self, options: Mapping[str, Any], section: str) -> Table:
        """Return options within the limits of a section.

        >>> few = Scale(examples=8, caution="", pass_seconds=1e-4, limits={"attack": {"steps": 2, "queries": 5}})
        >>> few.limited({"steps": 1000, "step_size": "2/255"}, "attack")
        {'steps': 2, 'step_size': '2/255'}
        """
        limits = {name: one for name, one in self.limits.get(section, {}).items() if name in options}
        return dict(options) | {
            name: one if isinstance(one, str) else min(one, options[name]) for name, one in limits.items()
        }


@dataclass(frozen=True, kw_only=True)
class NetworkTable:
    """How a network is trained: a table [networks.NAME]."""

    title: str = ""
    """What readers call it."""
    about: str = ""
    """A sentence to show when its training begins."""
    like: str | tuple[str, ...] = ()
    """Networks before this one to take everything from but the title; what it says itself comes on top."""
    recipe: str = ""
    """The recipe it is trained with; that of the file by default."""
    start_from: str = ""
    """A network before this one, whose weights it starts from."""
    seed: int = 0
    """Added to the recipe's."""
    size: Literal["", "paper"] = ""
    """Whether it has the paper's size at every scale; then it is trained at that scale only."""
    fields: Table = field(default_factory=dict)
    """Fields of the recipe that differ."""
    smoke: Table = field(default_factory=dict)
    """Fields that differ from what the smoke scale prescribes."""


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
    """

    tables: Mapping[str, Table]
    origin: str
    scale: str
    settings: Scale | None
    recipe: str
    changes: Table
    flags: recipes.Overrides

    def training(self, name: str) -> Training:
        """Return how a network is trained.

        Raises:
            UserError: if what its table says makes no sense
        """
        where = f"{self.origin}: network '{name}'"
        parts = [typed(at_scale(one, self.size(name)), NetworkTable, where) for one in self._parts(name)]

        def last(key: str) -> Any:
            return next((getattr(part, key) for part in reversed(parts) if getattr(part, key)), None)

        if not (last("recipe") or self.recipe):
            raise UserError(f"{where}: recipe is missing")
        table = recipes.read(recipes.path_of(last("recipe") or self.recipe))
        # Where the weights are that it starts from depends on where networks are kept.
        table = recipes.apply(table, {"description": "", "training.start_from": None})
        for fields in (self.changes, *(part.fields for part in parts)):
            table = recipes.apply(table, flat(fields))
        if self.settings is not None and self.size(name) == self.scale:
            table = recipes.apply(table, flat(self.settings.fields))
            table |= {key: self.settings.limited(table[key], key) for key in OPEN_SECTIONS}
        for part in parts if self.size(name) == "smoke" else ():
            table = recipes.apply(table, flat(part.smoke))
        recipe = recipes.from_table(recipes.apply(table, self.flags), f"network '{name}'")
        start = last("start_from") or ""
        if start:
            self._check_before(start, name, "start_from")
        recipe = replace(recipe, seed=recipe.seed + (last("seed") or 0))
        return Training(title=parts[-1].title or name, recipe=recipe, start=start, about=parts[-1].about)

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


def at_scale(value: Any, scale: str) -> Any:
    """Replace tables whose keys are all scales by their value at one; what a scale lacks is left out.

    Args:
        value: a table, a list or anything else of a file
        scale: its name; nothing is replaced when empty

    >>> at_scale({"epochs": {"small": 4, "paper": 200}, "lr": {"paper": 0.1}}, "smoke")
    {'epochs': 4}
    """
    if isinstance(value, list):
        return [at_scale(one, scale) for one in value]
    if not (scale and isinstance(value, dict)):
        return value
    found = {}
    for key, one in value.items():
        if isinstance(one, dict) and one and set(one) <= _NAMES:
            one = one.get(scale, one.get("small") if scale == "smoke" else None)
        if one is not None:
            found[key] = at_scale(one, scale)
    return found


def typed(table: Any, kind: type[Wanted], origin: str) -> Wanted:
    """Convert a table of a file to a dataclass.

    Raises:
        UserError: for an unknown field, a missing one or a value of the wrong type
    """
    check_fields(table, kind, origin)
    return convert(table, kind, "", file=origin)


def check_fields(table: Any, kind: Any, origin: str) -> None:
    """Refuse fields that a dataclass does not have; msgspec passes over them."""
    known = kind.__dataclass_fields__
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            raise unknown("field", key, known, origin)


def flat(table: Table, prefix: str = "") -> recipes.Overrides:
    """Write nested tables as full names of fields.

    >>> flat({"seed": 1, "objective": {"name": "soar", "step": 0.5}})
    {'seed': 1, 'objective.name': 'soar', 'objective.step': 0.5}
    """
    found: recipes.Overrides = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found
