"""The `soar` command: run the module of a subcommand, and report mistakes in one line."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from soar import __version__
from soar.cli import (
    bench,
    certify,
    data,
    demo,
    diagnose,
    evaluate,
    export,
    listing,
    report,
    reproduce,
    study,
    sweep,
    train,
)
from soar.cli.common import check_numbers
from soar.environment import deterministic
from soar.errors import UserError, printable, reason_of, unknown

COMMANDS = {
    "demo": demo,
    "train": train,
    "evaluate": evaluate,
    "diagnose": diagnose,
    "certify": certify,
    "report": report,
    "export": export,
    "study": study,
    "sweep": sweep,
    "reproduce": reproduce,
    "data": data,
    "list": listing,
    "bench": bench,
}
TAKES_FIELDS = ("train", "study", "sweep")
_LONGEST = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the arguments after `soar`; those of the process when None

    Returns:
        0 on success, 2 for a user's mistake, 128 + n for signal n, else 1.
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        _check_text(words)
        parser = make_parser()
        arguments, rest = parser.parse_known_args(words)
        if rest and arguments.command not in TAKES_FIELDS:
            raise _unknown_flag(parser, arguments.command, rest[0])
        arguments.fields = rest
        check_numbers(arguments)
        with warnings.catch_warnings(), _determined(arguments):
            warnings.showwarning = _warn
            warnings.simplefilter("always", UserWarning)
            code: int = COMMANDS[arguments.command].run(arguments)
        return code
    except UserError as error:
        _say(str(error))
        return 2
    except KeyboardInterrupt as interrupt:
        _say(interrupt.args[0] if interrupt.args else "interrupted")
        return 130
    except BrokenPipeError:
        # The reader of a pipe, such as head, has stopped.
        sys.stderr.close()
        return 0
    except OSError as error:
        # A full disk, a name that is too long, a folder that may not be read: the system describes it.
        _say(f"{error.filename}: {reason_of(error)}" if error.filename else reason_of(error))
        return 2


def _determined(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    # Only the commands with this flag need torch for it.
    return deterministic() if getattr(arguments, "deterministic", False) else nullcontext()


def _check_text(words: Sequence[str]) -> None:
    """Refuse arguments that are not text: bytes that are not UTF-8 arrive as surrogates."""
    for word in words:
        if "\0" in word or any("\ud800" <= character <= "\udfff" for character in word):
            raise UserError(f"got '{word}', expected text without null bytes, encoded as UTF-8")


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line without its place in the code."""
    _say(f"warning: {message}")


def _say(text: str) -> None:
    """Print a line to standard error, once for all processes that torchrun started."""
    line = printable(text)
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    if os.environ.get("RANK", "0") == "0":
        print(f"soar: {line}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong call in one line, like every other mistake."""

    def error(self, message: str) -> NoReturn:
        _say(f"{message} (see {self.prog} --help)")
        self.exit(2)


def make_parser() -> argparse.ArgumentParser:
    """Declare every command and its flags."""
    parser = _Parser(
        prog="soar",
        description="Train image classifiers that stay accurate under attack; measure how robust they are.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"soar {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.DESCRIPTION,
            description=module.DESCRIPTION,
            allow_abbrev=False,
            conflict_handler="resolve",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
    return parser


def _unknown_flag(parser: argparse.ArgumentParser, command: str, got: str) -> UserError:
    """Return an error that suggests the closest flag."""
    actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    known = [flag for flag in actions[0].choices[command]._option_string_actions if flag.startswith("--")]
    return unknown("argument", got, known, f"soar {command}")
