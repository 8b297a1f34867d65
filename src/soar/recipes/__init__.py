"""Recipes shipped with the package, and how they are found, changed and stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from soar.errors import unknown
from soar.recipes.overrides import apply, parse
from soar.recipes.recipe import Recipe, from_table, read, write

__all__ = ["Recipe", "apply", "from_table", "load", "names", "parse", "read", "write"]

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Name the recipes that come with the package."""
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
    text = str(name)
    if text.endswith(".toml"):
        path = Path(text)
    elif text in names():
        path = FOLDER / f"{text}.toml"
    else:
        raise unknown("recipe", text, [*names(), "FILE.toml"], "soar train RECIPE")
    return from_table(apply(read(path), parse(flags)), str(name))
