"""Recipes shipped with the package, and how they are found, changed and stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soar.errors import UserError, shown, unknown
from soar.recipes.overrides import Overrides, apply, flat, parse
from soar.recipes.recipe import Recipe, from_table, read, write

__all__ = [
    "Overrides",
    "Recipe",
    "apply",
    "flat",
    "from_table",
    "load",
    "names",
    "parse",
    "path_of",
    "read",
    "table_of",
    "write",
]

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
    return from_table(apply(table_of(name), parse(flags)), str(name))


def table_of(name: str | Path) -> dict[str, Any]:
    """Return a recipe as nested tables; one with a `base` says only how it differs from that recipe.

    Args:
        name: a name of `soar list recipes`, or a path that ends in .toml

    Raises:
        UserError: if there is no such recipe or base, or recipes are based on each other

    >>> table_of("cifar10-nuat")["training"] == table_of("cifar10-fast")["training"]
    True
    """
    path = path_of(name)
    found: dict[str, Any] = read(path)
    own: Overrides = {}
    seen = [path.resolve()]
    while "base" in found:
        own = flat(found) | own
        base = own.pop("base")
        if not isinstance(base, str):
            raise UserError(f"{path}: base: got {shown(base)}, expected the name of a recipe or a .toml file")
        path = path.parent / base if base.endswith(".toml") else path_of(base)
        if path.resolve() in seen:
            raise UserError(f"{path}: base: got '{base}', which is based on this recipe itself")
        seen.append(path.resolve())
        found = read(path)
    return apply(found, own)


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
