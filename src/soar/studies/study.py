"""What a study compares, as a TOML file says it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from soar import recipes
from soar.errors import UserError, unknown
from soar.options import convert
from soar.recipes import Recipe

FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One training of a study."""

    name: str
    """What the row is called; also its folder."""
    about: str = ""
    """A sentence to show when its training begins."""
    recipe: str = ""
    """The recipe it starts from; that of the study by default."""
    start_from: str = ""
    """The arm whose weights it begins with."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the recipe that differ."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """Trainings that differ in a few fields, and the attacks that compare them."""

    description: str
    """One line for `soar list studies`."""
    recipe: str
    """The recipe of every arm that names no other."""
    attacks: tuple[str, ...] = ("pgd:steps=20", "pgd:steps=20,loss=margin")
    """What every trained network is attacked with, as in `soar evaluate --attacks`."""
    split: Literal["test", "validation"] = "test"
    """The images that are attacked."""
    examples: Annotated[int, Meta(ge=1)] = 1000
    """How many of them."""
    transfer_from: str = ""
    """An arm whose PGD-20 points are shown to all others."""
    cost: bool = False
    """Measure what a training step of each arm costs, relative to PGD-10."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the recipe for all arms."""
    arms: tuple[Arm, ...]

    def recipe_of(self, arm: Arm, folder: Path, flags: tuple[str, ...] = ()) -> Recipe:
        """Give the whole recipe of an arm.

        Args:
            arm: one of the study's
            folder: where the study's runs are, for the arm that this one begins with
            flags: fields for all arms that override everything, such as ("--epochs", "1")

        Raises:
            UserError: if the recipe makes no sense
        """
        name = arm.recipe or self.recipe
        table = recipes.read(recipes.path_of(name))
        for changes in (_flat(self.fields), _flat(arm.fields), recipes.parse(flags)):
            table = recipes.apply(table, changes)
        if arm.start_from:
            table = recipes.apply(table, {"training.start_from": str(folder / folder_name(arm.start_from))})
        return recipes.from_table(table, f"arm '{arm.name}'")


def names() -> list[str]:
    """Name the studies that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Study:
    """Load a study by name or from a TOML file.

    Args:
        name: a name of `soar list studies`, or a path that ends in .toml

    Raises:
        UserError: if there is no such study, or it makes no sense
    """
    if name.endswith(".toml"):
        path = Path(name)
    elif name in names():
        path = FOLDER / f"{name}.toml"
    else:
        raise unknown("study", name, [*names(), "FILE.toml"], "soar study STUDY")
    return from_table(recipes.read(path), name)


def from_table(table: dict[str, Any], origin: str) -> Study:
    """Check a table and make it a study.

    Args:
        table: what a TOML file says
        origin: the file, for messages

    Raises:
        UserError: for an unknown field, a missing one, or arms that do not fit together
    """
    arms = table.get("arms")
    for part, kind in ((table, Study), *((arm, Arm) for arm in (arms if isinstance(arms, list) else ()))):
        known = [one.name for one in fields(kind)]
        for key in part if isinstance(part, dict) else ():
            if key not in known:
                raise unknown("field", key, known, origin)
    study = convert(table, Study, "", file=origin)
    if not study.arms:
        raise UserError(f"{origin}: got no arms, expected at least one (field arms)")
    before: list[str] = []
    for arm in study.arms:
        if not folder_name(arm.name).strip("."):
            raise UserError(f"{origin}: got an arm called '{arm.name}', expected a name (field arms.name)")
        if folder_name(arm.name) in [folder_name(other) for other in before]:
            raise UserError(f"{origin}: got two arms called '{arm.name}' (field arms.name)")
        if arm.start_from and arm.start_from not in before:
            raise unknown("arm", arm.start_from, before, f"{origin}: start_from of '{arm.name}'")
        before.append(arm.name)
    if study.transfer_from and study.transfer_from not in before:
        raise unknown("arm", study.transfer_from, before, f"{origin}: transfer_from")
    return study


def folder_name(arm: str) -> str:
    """Give the name of an arm's folder.

    >>> folder_name("SOAR, h = 0.5")
    'soar-h-0.5'
    """
    kept = [character if character.isalnum() or character in ".-" else " " for character in arm.lower()]
    return "-".join("".join(kept).split())


def _flat(table: dict[str, Any], prefix: str = "") -> recipes.Overrides:
    """Write nested tables as full names of fields.

    >>> _flat({"seed": 1, "objective": {"name": "soar", "step": 0.5}})
    {'seed': 1, 'objective.name': 'soar', 'objective.step': 0.5}
    """
    found: recipes.Overrides = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
