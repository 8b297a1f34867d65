"""Recipes shipped with the package, and how they are found, changed and stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from soar.errors import unknown
from soar.recipes.overrides import Overrides, apply, parse
from soar.recipes.recipe import Recipe, from_table, read, write

__all__ = ["Overrides", "Recipe", "apply", "from_table", "load", "names", "parse", "path_of", "read", "write"]

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str | Path, flags: Sequence[str] = ()) -> Recipe:
    """Load a recipe by name or from a TOML file, with some fields set by flags.

    Args:
        name: a name of `soar list recipes`, or a path that ends in .toml
        flags: such as ["--epochs", "30"]

    Raises:
        UserError: if there is no such recipe, or it makes no sense

    >>> load("demo-robust", ["--epochs", "1"]).training.epochs
    1
    """
    return from_table(apply(read(path_of(name)), parse(flags)), str(name))


def path_of(name: str | Path) -> Path:
    """Return the file of a recipe.

    Args:
        name: a name of `soar list recipes`, or a path that ends in .toml

    Raises:
        UserError: if there is no recipe of that name
    """
    text = str(name)
    if text.endswith(".toml"):
        return Path(text)
    if text in names():
        return FOLDER / f"{text}.toml"
    raise unknown("recipe", text, [*names(), "FILE.toml"], "see `soar list recipes`")
