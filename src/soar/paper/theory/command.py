"""A command made of parts: each prints its tables and draws its figure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from soar.errors import UserError, unknown
from soar.paper.theory import figures
from soar.paper.theory.table import Section, show_all


class Result(NamedTuple):
    """The tables of a part, and what draws its figure into a file."""

    sections: list[Section]
    draw: Callable[[Path], None]


def _no_flags(_: argparse.ArgumentParser) -> None:
    """Add nothing to --figure, which every part has."""


class Part(NamedTuple):
    """What a word on the command line stands for."""

    description: str
    run: Callable[[argparse.Namespace], Result]
    add_flags: Callable[[argparse.ArgumentParser], None] = _no_flags


class _Parser(argparse.ArgumentParser):
    """Tells a mistake as the rest of the package does: one line, no usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def make_parser(module: str, description: str, parts: Mapping[str, Part]) -> argparse.ArgumentParser:
    """Declare the parts and their flags.

    Args:
        module: what comes after `python -m`
        description: the first line of the help
        parts: by the word that stands for them
    """
    parser = _Parser(prog=f"python -m {module}", description=description, allow_abbrev=False)
    commands = parser.add_subparsers(dest="part", metavar="PART", required=True)
    for name, part in parts.items():
        command = commands.add_parser(
            name, help=part.description, description=part.description, allow_abbrev=False
        )
        command.add_argument("--figure", type=Path, metavar="FILE", help="draw it: .svg, .png or .pdf")
        part.add_flags(command)
    return parser


def run(module: str, description: str, parts: Mapping[str, Part], words: Sequence[str]) -> int:
    """Print the tables of the part that was asked for, or say in one line what is wrong.

    Args:
        module: what comes after `python -m`
        description: the first line of the help
        parts: by the word that stands for them
        words: the command line after the module

    Returns:
        0 when all went well, 2 for a mistake of the user's, 130 when interrupted.
    """
    try:
        if not words:
            raise UserError(f"which part? Say one of {', '.join(parts)}")
        if not words[0].startswith("-") and words[0] not in parts:
            raise unknown("part", words[0], parts, module)
        arguments = make_parser(module, description, parts).parse_args(words)
        if arguments.figure is not None:
            figures.check(arguments.figure)
        result = parts[arguments.part].run(arguments)
        print(show_all(result.sections))
        if arguments.figure is not None:
            result.draw(arguments.figure)
        return 0
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("soar: interrupted", file=sys.stderr)
        return 130
