"""Read plain values out of a pickle without unpickling it: nothing is imported, nothing is called.

`pickle.load` runs whatever a file names. Here the opcodes are only read, by the standard library's
`pickletools`, and numbers, texts, lists, tuples and dictionaries are put together. What a pickle would call,
such as the constructor of a NumPy array, stays a description of the call.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from soar.data.files import parsing
from soar.data.stored import Pixels

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_ARGUMENTS = (
    "BININT", "BININT1", "BININT2", "SHORT_BINSTRING", "BINSTRING", "SHORT_BINBYTES", "BINBYTES",
    "BINUNICODE", "SHORT_BINUNICODE",
)  # fmt: skip
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass
class Call:
    """What a pickle would call, and with what, if it were unpickled."""

    name: str
    arguments: Any = ()
    state: Any = None


def read_plain(contents: bytes, where: str) -> dict[str, Any]:
    """Return the dictionary that a pickle of protocol 2 describes.

    Args:
        contents: the pickle
        where: the file, for messages

    Raises:
        UserError: it is damaged, holds anything but plain values, or no dictionary

    >>> import pickle
    >>> read_plain(pickle.dumps({"names": ["apple", "bee"], "labels": [0, 1]}, protocol=2), "meta")
    {'names': ['apple', 'bee'], 'labels': [0, 1]}
    """
    with parsing(where, "not a pickle of plain values"):
        found = _Reader().read(contents)
        if not isinstance(found, dict):
            raise TypeError(f"a {type(found).__name__}, expected a dictionary")
        return found


class _Reader:
    """The stack of values that are put together, and those to be used again."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[Any, Any] = {}
        self.steps: dict[str, Callable[[], None]] = {
            "APPEND": lambda: self._extend([self.stack.pop()]),
            "APPENDS": lambda: self._extend(self._since_mark()),
            "SETITEM": lambda: self._set([self.stack.pop(-2), self.stack.pop()]),
            "SETITEMS": lambda: self._set(self._since_mark()),
            "TUPLE": lambda: self.stack.append(tuple(self._since_mark())),
            "REDUCE": self._reduce,
            "BUILD": self._build,
        }

    def read(self, contents: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(contents):
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in ("BINPUT", "LONG_BINPUT"):
                self.memo[argument] = self.stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                self.stack.append(self.memo[argument])
            elif name in self.steps:
                self.steps[name]()
            elif name != "PROTO":
                self.stack.append(self._value(name, argument))
        raise ValueError("it has no end")

    def _value(self, name: str, argument: Any) -> Any:
        if name in _ARGUMENTS:
            return argument
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in _TUPLES:
            count = len(self.stack) - _TUPLES[name]
            parts, self.stack[count:] = tuple(self.stack[count:]), []
            return parts
        fresh: dict[str, Any] = {"MARK": _MARK, "EMPTY_LIST": [], "EMPTY_DICT": {}}
        return Call(argument) if name == "GLOBAL" else fresh[name]

    def _since_mark(self) -> list[Any]:
        # The newest mark is the last: a list is searched from its end.
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
        found, self.stack[place:] = self.stack[place + 1 :], []
        return found

    def _extend(self, items: list[Any]) -> None:
        self.stack[-1].extend(items)

    def _set(self, pairs: list[Any]) -> None:
        self.stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))

    def _reduce(self) -> None:
        arguments, called = self.stack.pop(), self.stack.pop()
        self.stack.append(Call(called.name, arguments))

    def _build(self) -> None:
        state = self.stack.pop()
        self.stack[-1].state = state


def array_of(found: Any) -> Pixels:
    """Return the array of bytes that a call describes.

    Raises:
        ValueError: it is a call of anything else
    """
    if not isinstance(found, Call) or not found.name.endswith("multiarray _reconstruct"):
        raise ValueError("data is not an array")
    _, shape, kind, is_fortran, content = found.state
    if not isinstance(kind, Call) or kind.arguments[0] not in ("u1", "|u1"):
        raise ValueError("data is not an array of bytes")
    held = content.encode("latin-1") if isinstance(content, str) else content
    return np.frombuffer(held, np.uint8).reshape(shape, order="F" if is_fortran else "C").copy()


def texts_of(found: list[str | bytes]) -> list[str]:
    """Return texts, some of which Python 2 has written as bytes."""
    return [one.decode() if isinstance(one, bytes) else one for one in found]
