"""The exception for a user's mistake, and helpers for its message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONG, _MANY = 20, 100
_SHOWN = 60


class UserError(ValueError):
    """A mistake in the user's input; the command line prints it as one line and exits with 2.

    The message names what was got, what is allowed, and which field or flag sets it. It may quote file names
    and responses of a server, so it is always made `printable`.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class FileError(UserError, OSError):
    """A file or folder that cannot be used; also an `OSError`, for callers that can continue without it."""


def reason_of(error: Exception) -> str:
    """Return the operating system's description of an error without its number and file, or its message.

    >>> reason_of(OSError(28, "No space left on device", "metrics.jsonl"))
    'No space left on device'
    """
    return getattr(error, "strerror", None) or str(error)


def printable(text: str, longest: int | None = None) -> str:
    r"""Return a text as one line without control sequences for a terminal.

    Line breaks and tabs become spaces. Other control characters, marks that change the direction of writing,
    and bytes of a file name that are not text become visible escapes; letters of every language stay.

    Args:
        text: anything, such as a file name or the response of a server
        longest: how many characters to keep; all when None

    >>> print(printable("caf\u00e9\n\x1b[2J"))
    café \x1b[2J
    >>> printable("a" * 50, longest=8)
    'aaaaa...'
    """
    if longest is not None and len(text) > longest:
        text = text[: longest - 3] + "..."
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else " " if letter.isspace() else repr(letter)[1:-1] for letter in text
    )


def first_line(error: BaseException) -> str:
    """Return the type of any exception and the first line of its message.

    >>> first_line(KeyError("width"))
    "KeyError: 'width'"
    """
    return f"{type(error).__name__}: {error}".split("\n")[0]


def shown(value: object) -> str:
    """Return a short representation of any value on one line, for a message.

    >>> shown("0.1"), shown(10**5000)
    ("'0.1'", 'a number of thousands of digits')
    >>> shown([0] * 1000)
    '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0...'
    """
    try:
        written = repr(value)
    except Exception:  # a number with too many digits, or any class with a broken __repr__
        if isinstance(value, int):
            return "a number of thousands of digits"
        written = ""
    if not written or "\n" in written:
        kind = type(value).__name__
        return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 3]}..."


def flag_of(field: str) -> str:
    """Return the flag of the command line that sets a field, for the end of a message.

    Args:
        field: such as "training.lr"; attacks, methods and eps have flags of other names

    >>> flag_of("training.lr"), flag_of("attack.steps"), flag_of("threat.eps")
    (' (flag --training.lr)', ' (flag --attacks)', ' (flag --eps)')
    """
    if field.startswith("attack."):
        return " (flag --attacks)"
    if field.startswith("method."):
        return " (flag --method)"
    return " (flag --eps)" if field == "threat.eps" else f" (flag --{field})"


def unknown(kind: str, got: object, allowed: Iterable[str], where: str) -> UserError:
    """Return an error about an unknown name that suggests the closest existing one.

    Args:
        kind: the kind of thing that is named, such as "objective"
        got: the unknown name
        allowed: the names that exist
        where: the field or flag that set it

    >>> print(unknown("objective", "tradse", ["standard", "trades"], "objective.name"))
    unknown objective 'tradse' (objective.name); did you mean 'trades'? Allowed: standard, trades
    """
    names = sorted(allowed)
    close = difflib.get_close_matches(got, names, n=1) if isinstance(got, str) else []
    hint = f"; did you mean '{close[0]}'?" if close else "."
    listed = f" Allowed: {', '.join(names)}"
    if len(names) > _LONG and close:
        listed = ""  # a long list would bury the suggestion
    elif len(names) > _MANY:
        listed = f" There are {len(names):,}, such as {', '.join(names[:_LONG])}"
    words = " ".join(got.split()) if isinstance(got, str) else ""
    quoted = f"'{words}'" if words.isprintable() and 0 < len(words) <= _SHOWN else shown(got)
    return UserError(f"unknown {kind} {quoted} ({where}){hint}{listed}")
