"""The page of all commands, read from the parser that reads the command line."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from tables import code, table

INTRODUCTION = """\
# Commands

Generated from the command-line parser. Invalid arguments print a one-line error and exit with code 2. To resume an
interrupted command, run it again (`soar train` with `--resume`). `soar train`, `study` and `sweep` also accept every
[recipe field](recipe-fields.md) as a flag.
"""


def text() -> str:
    """Write the page."""
    from soar.cli.main import make_parser

    lines = [INTRODUCTION]
    for name, command in _commands(make_parser()).items():
        lines += [f"## soar {name}", "", *_command(command)]
        for action, below in _commands(command).items():
            lines += [f"### soar {name} {action}", "", *_command(below)]
        if name == "evaluate":
            lines += _attacks()
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Describe one command: what it does, how it is called, its flags."""
    yield parser.description or ""
    yield from ["", "```text", _usage(parser), "```", ""]
    rows = [_flag(action) for action in parser._actions if not _is_plain_help(action)]
    rows = [row for row in rows if row[0]]
    if rows:
        yield from table(["flag", "meaning", "default"], rows)


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage line, in the same width on every machine."""
    formatter = argparse.HelpFormatter(parser.prog, width=80)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups)
    return formatter.format_help().strip().removeprefix("usage: ")


def _is_plain_help(action: argparse.Action) -> bool:
    return type(action) is argparse._HelpAction


def _flag(action: argparse.Action) -> tuple[str, str, str]:
    if isinstance(action, argparse._SubParsersAction):
        return "", "", ""
    value = action.metavar if isinstance(action.metavar, str) else None
    if value is None and action.choices is not None:
        value = "|".join(str(choice) for choice in action.choices)
    if value is None:
        value = action.dest.upper()
    shown = ", ".join(action.option_strings)
    if action.nargs != 0:
        shown = f"{shown} {value}".strip()
    default = "" if action.default in (None, False, [], argparse.SUPPRESS) else _short(action.default)
    return code(shown), action.help or "", code(default)


def _short(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _attacks() -> Iterable[str]:
    """List the values of `--attacks`."""
    from soar.attacks import ATTACKS
    from soar.evaluation.suites import SUITES

    yield from ["### Values of --attacks", ""]
    yield "Suites and attacks, with options after a colon: `pgd:steps=100,restarts=5`."
    yield ""
    for kind, registry in (("suite", SUITES), ("attack", ATTACKS)):
        rows = [(code(entry.name), entry.description, options(entry.build)) for entry in registry]
        yield from table([kind, "description", "options and defaults"], rows)


def options(build: Any) -> str:
    """Write the keyword options of a builder."""
    parameters = inspect.signature(build).parameters.values()
    wanted = [one for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "seed"]
    return ", ".join(
        code(one.name if one.default is one.empty else f"{one.name}={default(one.default)}") for one in wanted
    )


def default(value: Any) -> str:
    """Write a value as a recipe or a flag would."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
