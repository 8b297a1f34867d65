"""Completion of commands, flags and names by the shell, through argcomplete where that is installed."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

Completer = Callable[..., Iterable[str]]

ASKED = "_ARGCOMPLETE"
"""the variable that the shell sets when it asks what may come next"""
_PACKAGE = Path(__file__).parent.parent


def complete(parser: argparse.ArgumentParser, takes_fields: Iterable[str]) -> None:
    """Answer the shell and end the process; without argcomplete nothing happens.

    Args:
        parser: of the whole command line
        takes_fields: commands that take fields of a recipe as flags
    """
    try:
        import argcomplete
    except ImportError:
        return
    prepare(parser, takes_fields)
    argcomplete.autocomplete(parser)


def prepare(parser: argparse.ArgumentParser, takes_fields: Iterable[str] = ()) -> None:
    """Set for every argument which names it takes, and declare fields of a recipe as flags.

    Args:
        parser: of a command, or of the whole command line
        takes_fields: names of commands
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                if name in takes_fields:
                    _add_fields(command)
                prepare(command)
        elif (completer := _completer(action)) is not None:
            action.completer = completer  # type: ignore[attr-defined]


def registered(*registries: str) -> list[str]:
    """Return the names in registries, read from the sources: importing them takes seconds.

    Args:
        registries: such as "ATTACKS"
    """
    pattern = re.compile(rf'^@?(?:{"|".join(registries)})\.register\("([^"]+)"\)', re.MULTILINE)
    texts = (path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py")))
    return sorted(name for text in texts for name in pattern.findall(text))


def run_folders(prefix: str, **_: Any) -> list[str]:
    """Return the runs of this project and the folders that may hold others."""
    base = os.path.dirname(prefix)
    inside = Path(base or ".")
    there = sorted(inside.iterdir()) if inside.is_dir() else []
    folders = [path for path in there if path.is_dir() and not path.name.startswith(".")]
    names = [os.path.join(base, path.name) for path in folders]
    known = [
        name if (path / "recipe.toml").exists() else f"{name}/"
        for path, name in zip(folders, names, strict=True)
    ]
    runs = [] if base else [str(path.parent) for path in sorted(Path("runs").glob("*/recipe.toml"))]
    return [name for name in [*runs, *known] if name.startswith(prefix)]


def _files(prefix: str) -> list[str]:
    """Return the TOML files that begin so."""
    base = os.path.dirname(prefix)
    found = [os.path.join(base, path.name) for path in sorted(Path(base or ".").glob("*.toml"))]
    return [name for name in found if name.startswith(prefix)]


def _recipes(prefix: str, **_: Any) -> list[str]:
    from soar import recipes

    return [*recipes.names(), *_files(prefix)]


def _studies(prefix: str, **_: Any) -> list[str]:
    from soar.experiments import loading

    return [*loading.studies(), *_files(prefix)]


def _tables(**_: Any) -> list[str]:
    from soar.experiments import loading

    return [*loading.tables(), "all"]


def _grid(**_: Any) -> list[str]:
    from soar.recipes.overrides import flags

    return [f"{flag[2:]}=" for flag in flags()]


def _datasets(**_: Any) -> list[str]:
    from soar.data.catalog import DATASETS

    return [entry.name for entry in DATASETS]


def _fetchable(**_: Any) -> list[str]:
    from soar.data.catalog import FETCHABLE

    return [*FETCHABLE]


def _names(*registries: str) -> Completer:
    return lambda **_: registered(*registries)


_BY_METAVAR: dict[str, Completer] = {
    "RUN": run_folders,
    "RECIPE": _recipes,
    "STUDY": _studies,
    "TABLE": _tables,
    "ATTACK": _names("ATTACKS", "SUITES"),
    "METHOD": _names("METHODS"),
    "MODEL": _names("MODELS"),
    "OBJECTIVE": _names("OBJECTIVES"),
    "DATA": _datasets,
    "FETCHED": _fetchable,
    "FIELD=VALUES": _grid,
    "SINK": lambda **_: ["tensorboard", "wandb"],
}
_BY_DEST = {"data": "DATA", "name": "FETCHED", "objectives": "OBJECTIVE"}
_BY_FIELD = {"data.name": "DATA", "model.name": "MODEL", "objective.name": "OBJECTIVE"}


def _completer(action: argparse.Action) -> Completer | None:
    """Return what knows the words of an argument; None leaves files, or the choices that it has."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is None and "|" in metavar:
        return lambda **_: metavar.split("|")
    return _BY_METAVAR.get(_BY_DEST.get(action.dest, "") if metavar == "NAME" else metavar)


def _add_fields(parser: argparse.ArgumentParser) -> None:
    from soar.recipes.overrides import flags, full_name
    from soar.recipes.recipe import SECTIONS

    hints = {section: get_type_hints(kind) for section, kind in SECTIONS.items()}
    for flag in flags():
        if flag not in parser._option_string_actions:
            field = full_name(flag[2:])
            section, _, name = field.rpartition(".")
            metavar = _BY_FIELD.get(field) or "|".join(_words(hints.get(section, {}).get(name))) or "VALUE"
            parser.add_argument(flag, metavar=metavar)


def _words(kind: Any) -> list[str]:
    """Return the words that a field of this type takes.

    >>> _words(bool), _words(Literal["sgd", "muon"] | None), _words(int)
    (['false', 'true'], ['sgd', 'muon'], [])
    """
    if kind is bool:
        return ["false", "true"]
    kinds = [one for one in (kind, *get_args(kind)) if get_origin(one) is Literal]
    return [str(word) for one in kinds for word in get_args(one)]
