"""A command made of parts: each prints its tables and draws its figure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from soar.errors import UserError, unknown
from soar.theory import Rows
from tools.figures import drawing


class Section(NamedTuple):
    """A table and the line above it."""

    title: str
    rows: Rows


class Result(NamedTuple):
    """The tables of a part, and a function that draws its figure into a file."""

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
    """Reports a mistake as the rest of the package does: one line, no usage."""

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
    """Print the tables of a part, or one line about what is wrong.

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
            raise UserError(f"expected the name of a part: {', '.join(parts)}")
        if not words[0].startswith("-") and words[0] not in parts:
            raise unknown("part", words[0], parts, module)
        arguments = make_parser(module, description, parts).parse_args(words)
        if arguments.figure is not None:
            drawing.check(arguments.figure)
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


def carried_out(act: Callable[[Sequence[str]], None], words: Sequence[str]) -> int:
    """Do something with the words of a command line; a mistake of the user's becomes one line and code 2."""
    try:
        act(words)
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2
    return 0


def show_all(sections: Iterable[Section]) -> str:
    """Format tables one below the other, each under its title.

    >>> print(show_all([Section("Losses", [{"d": 10}])]))
    Losses
    <BLANKLINE>
     d
    10
    """
    return "\n\n".join(f"{section.title}\n\n{show(section.rows)}" for section in sections)


def show(rows: Rows) -> str:
    """Format rows under a heading: numbers with four digits to the right, text to the left, None as nothing.

    >>> print(show([{"d": 10, "fit": "ridge", "loss": 0.5}, {"d": 100, "fit": None, "loss": None}]))
      d  fit    loss
     10  ridge   0.5
    100
    """
    names = list(rows[0])
    cells = [names, *([_text(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    words = [all(isinstance(row[name], str | None) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.ljust(width) if is_word else cell.rjust(width)
            for cell, width, is_word in zip(line, widths, words, strict=True)
        )
        for line in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
