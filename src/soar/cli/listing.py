"""`soar list`: the objectives, attacks, models and other things that exist by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from soar.cli.common import width
from soar.errors import UserError
from soar.text import beside

if TYPE_CHECKING:
    from soar.registry import Entry

DESCRIPTION = "List objectives, attacks, suites, methods, models, datasets, recipes, studies or tables."
_COST = "cost of an update: its operations, counted, in those of a PGD-10 update"
_LEFT, _COST_WIDTH = 27, 6
KINDS = ("objectives", "attacks", "suites", "methods", "models", "datasets", "recipes", "studies", "tables")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be listed."""
    parser.add_argument("kind", choices=KINDS, metavar="|".join(KINDS))


def run(arguments: argparse.Namespace) -> int:
    """Print the name and the description of each entry with its options below, and the cost of objectives."""
    wide, is_costed = width(), arguments.kind == "objectives"
    left = _LEFT + (_COST_WIDTH if is_costed else 0)
    if is_costed:
        print(beside("", _COST, left=_LEFT, width=wide))
    for label, description, options in _rows(arguments.kind):
        print(beside(label, description, left=left, width=wide))
        if options:
            print(beside("", options, left=_LEFT + 2, width=wide))
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
    rows = [(entry.name, entry.description, _options(entry.build)) for entry in _registry(kind)]
    if kind == "models":
        from soar.models.libraries import LIBRARIES

        rows += [
            (f"{library}:{'FOLDER' if library == 'hf' else 'NAME'}", _first_line(build), _options(build))
            for library, build in LIBRARIES.items()
        ]
    if kind == "objectives":
        # One by one, so that each is printed as soon as it is counted.
        return ((f"{name:<{_LEFT}}{_cost(name)}", text, options) for name, text, options in rows)
    return rows


def _registry(kind: str) -> Iterable[Entry[Any]]:
    if kind == "objectives":
        from soar.objectives import OBJECTIVES

        return OBJECTIVES
    if kind == "models":
        from soar.models import MODELS

        return MODELS
    if kind == "methods":
        from soar.evaluation.methods import METHODS

        return METHODS
    from soar.attacks import ATTACKS
    from soar.evaluation.suites import SUITES  # registers the attacks that open a run, too

    return SUITES if kind == "suites" else ATTACKS


def _cost(name: str) -> str:
    """Return what an update of an objective costs, in updates of PGD-10 training."""
    from soar.cost import relative_work

    try:
        return f"{relative_work(name):.2f}"
    except UserError:  # it cannot be built without options that only the user knows
        return f"{'-':>4}"


def _options(build: Callable[..., Any]) -> str:
    """Return the keyword options of a builder with their defaults."""
    from soar.options import REQUIRED, defaults

    return ", ".join(
        f"{name} (required)" if default is REQUIRED else f"{name}={_short(default)}"
        for name, default in defaults(build).items()
        if name != "seed"
    )


def _first_line(build: Callable[..., Any]) -> str:
    return (build.__doc__ or "").partition("\n")[0]


def _short(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
