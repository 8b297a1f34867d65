"""Write down the public surface: every name with its signature, every command with its flags.

python -m tests.public_api    writes tests/public_api.txt
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from soar.attacks import ATTACKS
from soar.cli.main import make_parser
from soar.data import DATASETS
from soar.evaluation.methods import METHODS
from soar.models import MODELS
from soar.objectives import OBJECTIVES
from soar.recipes.recipe import SECTIONS

FILE = Path(__file__).parent / "public_api.txt"
PACKAGES = (
    "soar",
    "soar.attacks",
    "soar.data",
    "soar.evaluation",
    "soar.export",
    "soar.interop",
    "soar.models",
    "soar.objectives",
    "soar.recipes",
    "soar.training",
)


def surface() -> str:
    """Give the whole surface as text, one thing a line."""
    return "\n".join([*_packages(), *_registered(), *_fields(), *_commands()]) + "\n"


def _packages() -> Iterator[str]:
    told: set[int] = set()
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            yield f"{package}.{name}{_kind(value)}"
            # A class that two packages show is described where it comes first.
            if inspect.isclass(value) and id(value) not in told:
                yield from (f"{package}.{name}.{member}" for member in _members(value))
            told.add(id(value))


def _kind(value: Any) -> str:
    if inspect.isclass(value) or inspect.isfunction(value):
        return _signature(value)
    return ": module" if inspect.ismodule(value) else f": {type(value).__name__}"


def _members(owner: type) -> Iterator[str]:
    """Describe what a class and its own ancestors add to the constructor's parameters."""
    ours = {name for base in owner.__mro__ if base.__module__.startswith("soar") for name in base.__dict__}
    ours -= {field.name for field in fields(owner)} if is_dataclass(owner) else set()
    for name, found in sorted(inspect.getmembers_static(owner)):
        if name not in ours or name.startswith("_"):
            continue
        if isinstance(found, classmethod | staticmethod):
            found = found.__func__
        yield name + (_signature(found) if inspect.isfunction(found) else "")


class _Bare(str):
    """An annotation as it stands in the source, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except ValueError:  # a type alias, or a class of another library
        return ""
    bare = [p.replace(annotation=_bare(p.annotation)) for p in found.parameters.values()]
    text = str(found.replace(parameters=bare, return_annotation=_bare(found.return_annotation)))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _bare(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _registered() -> Iterator[str]:
    for registry in (ATTACKS, DATASETS, METHODS, MODELS, OBJECTIVES):
        yield f"registered {registry.kind}: {' '.join(entry.name for entry in registry)}"


def _fields() -> Iterator[str]:
    for name, section in SECTIONS.items():
        for field in sorted(section.__dataclass_fields__.values(), key=lambda field: field.name):
            default = "" if field.default is MISSING else f" = {field.default!r}"
            yield f"recipe {name}.{field.name}: {field.type}{default}"


def _commands() -> Iterator[str]:
    (commands,) = (a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, parser in sorted(commands.choices.items()):
        yield from _flags(f"soar {name}", parser)


def _flags(command: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    flags = sorted(flag for action in parser._actions for flag in action.option_strings)
    words = [str(action.metavar or action.dest) for action in parser._actions if not action.option_strings]
    yield " ".join([command, *words, *flags])
    for action in inner:
        for name, below in sorted(action.choices.items()):
            yield from _flags(f"{command} {name}", below)


if __name__ == "__main__":
    FILE.write_text(surface())
