"""`soar list`: the objectives, attacks, models and other things that exist by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soar.registry import Entry

DESCRIPTION = "List objectives, attacks, suites, models, datasets, recipes, studies or tables."
KINDS = ("objectives", "attacks", "suites", "models", "datasets", "recipes", "studies", "tables")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be listed."""
    parser.add_argument("kind", choices=KINDS, metavar="|".join(KINDS))


def run(arguments: argparse.Namespace) -> int:
    """Print the name and the description of each entry, with its options below."""
    for name, description, options in _rows(arguments.kind):
        print(f"{name:<24} {description}")
        if options:
            print(f"{'':<24}   {options}")
    return 0


def _rows(kind: str) -> Iterable[tuple[str, str, str]]:
    if kind == "recipes":
        from soar import recipes

        return [(name, recipes.load(name).description, "") for name in recipes.names()]
    if kind in ("studies", "tables"):
        from soar.experiments import loading

        names = loading.studies() if kind == "studies" else loading.tables()
        return [(name, loading.load(name).title, "") for name in names]
    if kind == "datasets":
        from soar.data.catalog import DATASETS

        return [(entry.name, entry.description, "") for entry in DATASETS]
    return [(entry.name, entry.description, _options(entry.build)) for entry in _registry(kind)]


def _registry(kind: str) -> Iterable[Entry[Any]]:
    if kind == "objectives":
        from soar.objectives import OBJECTIVES

        return OBJECTIVES
    if kind == "models":
        from soar.models import MODELS

        return MODELS
    from soar.attacks import ATTACKS
    from soar.evaluation.suites import SUITES  # registers the attacks that open a run, too

    return SUITES if kind == "suites" else ATTACKS


def _options(build: Callable[..., Any]) -> str:
    """Return the keyword options of a builder with their defaults."""
    from soar.options import REQUIRED, defaults

    return ", ".join(
        f"{name} (required)" if default is REQUIRED else f"{name}={_short(default)}"
        for name, default in defaults(build).items()
        if name != "seed"
    )


def _short(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
