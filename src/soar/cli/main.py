"""The `soar` command: finds the module of a command and turns mistakes into one clear line."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from soar import __version__
from soar.cli import (
    bench,
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
from soar.errors import UserError, unknown

COMMANDS = {
    "demo": demo,
    "train": train,
    "evaluate": evaluate,
    "diagnose": diagnose,
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the words after `soar`; those of the process when None

    Returns:
        0 when all went well, 2 for a mistake of the user's, 128 + n for signal n, else 1.
    """
    parser = make_parser()
    arguments, rest = parser.parse_known_args(argv)
    try:
        if rest and arguments.command not in TAKES_FIELDS:
            raise _unknown_flag(parser, arguments.command, rest[0])
        arguments.fields = rest
        with warnings.catch_warnings():
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
        # The reader of a pipe, such as head, has seen enough.
        sys.stderr.close()
        return 0


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning as a line without the place in the code that it came from."""
    _say(f"warning: {message}")


def _say(text: str) -> None:
    """Write a line, once for all processes that torchrun started."""
    if os.environ.get("RANK", "0") == "0":
        print(f"soar: {text}", file=sys.stderr)


def make_parser() -> argparse.ArgumentParser:
    """Declare every command and its flags."""
    parser = argparse.ArgumentParser(
        prog="soar",
        description="Train image classifiers that stay right under attack, and tell how robust they are.",
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
    """Suggest the flag that was probably meant."""
    actions = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    known = [flag for flag in actions[0].choices[command]._option_string_actions if flag.startswith("--")]
    return unknown("argument", got, known, f"soar {command}")
