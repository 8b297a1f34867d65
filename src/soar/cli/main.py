# PYTHON_ARGCOMPLETE_OK
"""The `soar` command: run the module of a subcommand, and report mistakes in one line."""

from __future__ import annotations

import argparse
import io
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
    completion,
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
    for stream in (sys.stdout, sys.stderr):
        # A pipe on Windows, or a terminal of another language, cannot take every letter.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    try:
        _check_text(words)
        parser = make_parser()
        if completion.ASKED in os.environ:
            completion.complete(parser, TAKES_FIELDS)
        arguments, rest = parser.parse_known_args(words)
        _check_rest(parser, arguments, rest)
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
    """Reports a wrong call in one line, like every other mistake, and suggests what may have been meant."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            flag = f" {action.option_strings[0]}" if action.option_strings else ""
            kind = "value" if flag else action.dest
            raise unknown(kind, value, action.choices, f"{self.prog}{flag}")

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
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
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


def _check_rest(parser: argparse.ArgumentParser, arguments: argparse.Namespace, rest: Sequence[str]) -> None:
    """Check what no parser took: only fields of a recipe may follow, and only some commands."""
    place, last = [parser.prog], parser
    while branches := [a for a in last._actions if isinstance(a, argparse._SubParsersAction)]:
        chosen = getattr(arguments, branches[0].dest)
        if chosen is None:
            break
        place.append(chosen)
        last = branches[0].choices[chosen]
    known = [flag for flag in last._option_string_actions if flag.startswith("--")]
    if arguments.command in TAKES_FIELDS:
        if rest:
            from soar.recipes.overrides import full_name

            for word in rest:
                if word.startswith("--"):
                    full_name(word[2:].partition("=")[0].replace("-", "_"), known)
    elif rest:
        raise unknown("argument", rest[0], known, " ".join(place))
    elif arguments.command is None:
        parser.error("the following arguments are required: COMMAND")
