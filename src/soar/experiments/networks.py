"""The networks of an experiment's TOML file: recipes, what differs from them, and how large all of it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from soar import recipes
from soar.errors import UserError, unknown
from soar.experiments.experiment import Training
from soar.options import convert
from soar.recipes.recipe import OPEN_SECTIONS

Table = dict[str, Any]
Wanted = TypeVar("Wanted")
FOLDER = Path(__file__).parent
NAMES = ("smoke", "small", "paper")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large networks, trainings and attacks are.

    Args:
        examples: how many test images are attacked
        fewer: how many for attacks that need thousands of predictions, by the attack's name
        caution: how the experiment differs from the paper's, shown with every number
        pass_seconds: roughly the time of one forward and backward pass of an image through a narrow or, at
            paper scale, a full ResNet-10; measured on one core of a server, at paper scale assumed for a GPU
        fields: of every recipe
        limits: by section of a recipe, what becomes of fields that it has: a number is the largest that is
            allowed, a text takes the place of another; those of section attack limit measurements
    """

    examples: int
    fewer: dict[str, int] = field(default_factory=dict)
    caution: str
    pass_seconds: float
    fields: Table = field(default_factory=dict)
    limits: dict[str, Table] = field(default_factory=dict)

    def limited(self, options: Mapping[str, Any], section: str) -> Table:
        """Return options within the limits of a section.

        >>> SCALES["smoke"].limited({"steps": 1000, "step_size": "2/255"}, "attack")
        {'steps': 2, 'step_size': '2/255'}
        """
        limits = {name: one for name, one in self.limits.get(section, {}).items() if name in options}
        return dict(options) | {
            name: one if isinstance(one, str) else min(one, options[name]) for name, one in limits.items()
        }

    def examples_for(self, attack: str) -> int:
        """Return how many images an attack is run on.

        >>> SCALES["small"].examples_for("pgd"), SCALES["small"].examples_for("square")
        (500, 200)
        """
        return self.fewer.get(attack, self.examples)


@dataclass(frozen=True, kw_only=True)
class NetworkTable:
    """A table [networks.NAME] of a file."""

    title: str = ""
    """What readers call it."""
    about: str = ""
    """A sentence to show when its training begins."""
    like: str | tuple[str, ...] = ()
    """Networks before this one to take everything from that it does not say itself."""
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
        tables: by name, as the file has them; each may refer to those before it
        origin: the file, for messages
        scale: the name of the scale; empty where the file has none
        settings: of the scale
        recipe: of networks that name none
        fields: of all recipes
        flags: recipe fields that override everything
    """

    tables: Mapping[str, Any]
    origin: str
    scale: str
    settings: Scale | None
    recipe: str
    fields: Table
    flags: Sequence[str]

    def training(self, name: str) -> Training:
        """Return how a network is trained.

        Raises:
            UserError: if it makes no sense
        """
        parts = [
            typed(at_scale(table, self._size(name)), NetworkTable, f"{self.origin}: network '{name}'")
            for table in self._tables_of(name)
        ]

        def last(key: str) -> Any:
            return next((getattr(part, key) for part in reversed(parts) if getattr(part, key)), "")

        recipe = recipes.from_table(self._recipe_table(name, last("recipe"), parts), f"network '{name}'")
        start = last("start_from")
        if start:
            self._check_before(start, name, "start_from")
        return Training(
            title=parts[-1].title or name,
            about=parts[-1].about,
            recipe=replace(recipe, seed=recipe.seed + (last("seed") or 0)),
            start=start,
        )

    def is_trained(self, name: str) -> bool:
        """Return whether a network is trained at this scale."""
        return self._size(name) == self.scale

    def _size(self, name: str) -> str:
        """Return the scale that a network's tables are read at."""
        is_full = self.scale and any(table.get("size") == "paper" for table in self._tables_of(name))
        return "paper" if is_full else self.scale

    def _tables_of(self, name: str) -> list[Table]:
        """Return the tables that make up a network: of all that it is like, then its own."""
        table = self.tables[name]
        like = table.get("like", ())
        found = []
        for other in [like] if isinstance(like, str) else like:
            self._check_before(other, name, "like")
            found += self._tables_of(other)
        return [*found, table]

    def _check_before(self, other: str, name: str, where: str) -> None:
        names = list(self.tables)
        before = names[: names.index(name)]
        if other not in before:
            raise unknown("network", other, before, f"{self.origin}: {where} of '{name}'")

    def _recipe_table(self, name: str, recipe: str, parts: list[NetworkTable]) -> Table:
        if not (recipe or self.recipe):
            raise UserError(f"{self.origin}: the recipe of '{name}' is missing (field recipe)")
        table = recipes.read(recipes.path_of(recipe or self.recipe))
        # Where the weights are that it starts from depends on where networks are kept.
        table = recipes.apply(table, {"description": "", "training.start_from": None})
        for fields in (self.fields, *(part.fields for part in parts)):
            table = recipes.apply(table, flat(fields))
        if self.settings is not None and self.is_trained(name):
            table = recipes.apply(table, flat(self.settings.fields))
            table |= {key: self.settings.limited(table[key], key) for key in OPEN_SECTIONS}
        if self._size(name) == "smoke":
            for part in parts:
                table = recipes.apply(table, flat(part.smoke))
        return recipes.apply(table, recipes.parse(self.flags))


def at_scale(value: Any, scale: str) -> Any:
    """Replace tables whose keys are all scales by their value at one; what a scale lacks is left out.

    Args:
        value: a table, a list or anything else of a file
        scale: its name; nothing is replaced when empty

    >>> at_scale({"epochs": {"small": 4, "paper": 200}, "lr": {"paper": 0.1}}, "smoke")
    {'epochs': 4}
    """
    if not scale:
        return value
    if isinstance(value, list):
        return [at_scale(one, scale) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, one in value.items():
        if isinstance(one, dict) and one and set(one) <= set(NAMES):
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
    """Refuse fields that do not exist; msgspec passes over unknown fields of dataclasses."""
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


def scales(table: Table) -> dict[str, Scale]:
    """Return the scales that a file has."""
    return {name: typed(one, Scale, f"scale {name}") for name, one in table.get("scales", {}).items()}


SCALES: dict[str, Scale] = scales(recipes.read(FOLDER / "paper" / "networks.toml"))
"""how large the paper's tables can be made"""
