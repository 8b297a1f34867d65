"""Archives of arrays that were made to break their reader."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

PIXELS = np.arange(4 * 5 * 5 * 3, dtype=np.uint8).reshape(4, 5, 5, 3)
ARRAYS: dict[str, Any] = {
    "x_train": PIXELS,
    "y_train": np.array([0, 1, 2, 1]),
    "x_test": PIXELS[:2],
    "y_test": np.array([0, 1]),
}
BOMB = 128 << 20


def saved(compressed: bool = False, **changes: Any) -> bytes:
    packed = io.BytesIO()
    arrays = {name: array for name, array in (ARRAYS | changes).items() if array is not None}
    (np.savez_compressed if compressed else np.savez)(packed, **arrays)
    return packed.getvalue()


def npy(header: str | bytes, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header if isinstance(header, bytes) else header.encode("latin1")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def described(shape: str, descr: str = "'|u1'", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, contents in members.items():
            archive.writestr(name, contents)
    return packed.getvalue()


def plain() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(saved())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def with_member(contents: bytes, name: str = "x_train.npy") -> bytes:
    return zipped(plain() | {name: contents})


def patched(where: bytes, offset: int, value: bytes) -> bytes:
    """Overwrite a field behind every occurrence of a signature."""
    packed = bytearray(zipped(plain()))
    place = packed.find(where)
    while place >= 0:
        packed[place + offset : place + offset + len(value)] = value
        place = packed.find(where, place + 1)
    return bytes(packed)


def bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, contents in plain().items():
            if name != "x_train.npy":
                archive.writestr(name, contents)
        with archive.open("x_train.npy", "w") as stream:
            stream.write(npy(described(f"({BOMB >> 2}, 1, 2, 2)")))
            for _ in range(BOMB >> 20):
                stream.write(bytes(1 << 20))
    return packed.getvalue()


def lying_bomb() -> bytes:
    """The same, but it announces 1,000 bytes."""
    packed = bytearray(bomb())
    entry = packed.find(b"x_train.npy", packed.find(b"PK\x01\x02")) - 46
    packed[entry + 24 : entry + 28] = struct.pack("<I", 1000)
    return bytes(packed)


_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_NOT_PLAIN = r"not an \.npz archive of plain arrays"

# The message that each one must get; None where it is to be read.
CASES: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "label of 2**40": (lambda: saved(y_train=np.array([0, 1, 2, 2**40])), "more than 100000 classes"),
    "label of 2**62": (lambda: saved(y_test=np.array([0, 2**62])), "more than 100000 classes"),
    "unsigned label": (lambda: saved(y_test=np.array([0, 2**64 - 1], np.uint64)), "more than 100000 classes"),
    "label of 100,000": (lambda: saved(y_test=np.array([0, 100_000])), "more than 100000 classes"),
    "negative labels": (lambda: saved(y_train=np.full(4, -1)), "got labels from -1 to -1"),
    "least label": (
        lambda: saved(y_test=np.array([0, -(2**63)])),
        "got labels from -9223372036854775808 to 0",
    ),
    "no labels": (lambda: saved(y_test=np.array([], int)), "got 2 images but 0 labels"),
    "no numbers": (lambda: saved(y_test=np.array([np.nan, 0])), "got float64 of shape"),
    "a single label": (lambda: saved(y_test=np.array(1)), r"got int64 of shape \(\)"),
    "objects": (lambda: saved(x_train=np.array([{}, []], object)), f"{_NOT_PLAIN} .Object arrays"),
    "times": (lambda: saved(y_test=np.zeros(2, "M8[s]")), "got datetime64"),
    "classes of no text": (lambda: saved(classes=np.zeros(3)), "classes: got float64, expected strings"),
    "classes of objects": (lambda: saved(classes=np.array([{}], object)), f"{_NOT_PLAIN} .Object"),
    "no classes": (lambda: saved(classes=np.array([], "U3")), "allowed are 0 to -1"),
    "classes with escapes": (lambda: saved(classes=np.array(["\x1b[2J", "a\nb", "\u202e"])), None),
    "too many classes": (lambda: saved(classes=np.zeros(100_001, "U1")), "more than 100000 classes"),
    "classes of no width": (
        lambda: with_member(npy(described("(4611686018427387904,)", "'|S0'")), "classes.npy"),
        "(more than 100000 classes|not an .npz archive)",
    ),
    "classes outside of Unicode": (
        lambda: with_member(npy(described("(3,)", "'<U1'"), b"\xff" * 12), "classes.npy"),
        "classes cannot be read",
    ),
    "header that overflows": (
        lambda: with_member(npy(described("(4611686018427387904, 4)"))),
        _NOT_PLAIN,
    ),
    "negative length": (
        lambda: with_member(npy(described("(-4, -1, 5, 5)"), bytes(100))),
        _NOT_PLAIN,
    ),
    "two negative lengths": (lambda: with_member(npy(described("(-1,)"))), _NOT_PLAIN),
    "true for a length": (
        lambda: with_member(npy(described("(True, True, True)"), b"a")),
        _NOT_PLAIN,
    ),
    "65 dimensions": (lambda: with_member(npy(described(f"({'1,' * 65})"), b"a")), _NOT_PLAIN),
    "shape of a list": (lambda: with_member(npy(described("[4]"))), f"{_NOT_PLAIN} .shape is not valid"),
    "keys missing": (lambda: with_member(npy("{'descr': '|u1'}")), f"{_NOT_PLAIN} .Header does not contain"),
    "keys of many kinds": (lambda: with_member(npy("{1: 2, 'a': 3}")), _NOT_PLAIN),
    "no dictionary": (lambda: with_member(npy("7")), f"{_NOT_PLAIN} .Header is not a dictionary"),
    "a call": (lambda: with_member(npy("__import__('os').system('id')")), f"{_NOT_PLAIN} .malformed node"),
    "nested parentheses": (lambda: with_member(npy("(" * 9000 + ")" * 900)), _NOT_PLAIN),
    "nested minus": (lambda: with_member(npy("-" * 900 + "1")), _NOT_PLAIN),
    "unclosed text": (lambda: with_member(npy("'''")), _NOT_PLAIN),
    "null bytes": (lambda: with_member(npy(b"\0" * 100)), _NOT_PLAIN),
    "indentation": (lambda: with_member(npy("  {\n 1\n  2")), _NOT_PLAIN),
    "long header": (lambda: with_member(npy(" " * 60_000)), f"{_NOT_PLAIN} .Header info length"),
    "header of 4 GiB": (
        lambda: with_member(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100_000)),
        f"{_NOT_PLAIN} .EOF: reading array header",
    ),
    "unknown version": (lambda: with_member(npy(described("(1,)"), b"a", (9, 9))), _NOT_PLAIN),
    "no dtype": (
        lambda: with_member(npy(described("(1,)", "'nonsense'"), b"a")),
        f"{_NOT_PLAIN} .descr is not",
    ),
    "dtype of a number": (lambda: with_member(npy(described("(1,)", "7"), b"a")), _NOT_PLAIN),
    "endless dtype": (lambda: with_member(npy(described("()", "[" * 500 + "]" * 500))), _NOT_PLAIN),
    "record of objects": (
        lambda: with_member(npy(described("(1,)", "[('a', '|O')]"), b"a")),
        _NOT_PLAIN,
    ),
    "array in a dtype": (
        lambda: with_member(npy(described("(1,)", "[('a', '|u1', (1000000000,))]"), b"a")),
        _NOT_PLAIN,
    ),
    "header of Python 2": (
        lambda: with_member(npy(described("(4L, 5L, 5L, 3L)"), PIXELS.tobytes())),
        None,
    ),
    "empty member": (lambda: with_member(b""), f"{_NOT_PLAIN} .x_train is no array"),
    "no array": (lambda: with_member(b"text, not an array"), f"{_NOT_PLAIN} .x_train is no array"),
    "too few values": (lambda: with_member(npy(described("(4, 5, 5, 3)"), bytes(299))), _NOT_PLAIN),
    "too many values": (lambda: with_member(npy(described("(4, 5, 5, 3)"), bytes(301))), None),
    "encrypted": (lambda: patched(_CENTRAL, 8, b"\x01\x00"), f"{_NOT_PLAIN} .*(encrypted|differ)"),
    "bzip2": (lambda: zipped(plain(), zipfile.ZIP_BZIP2), None),
    "lzma": (lambda: zipped(plain(), zipfile.ZIP_LZMA), None),
    "unknown method": (lambda: patched(_CENTRAL, 10, b"\x63\x00"), _NOT_PLAIN),
    "wrong sum": (lambda: patched(_CENTRAL, 16, b"\0\0\0\0"), f"{_NOT_PLAIN} .Bad CRC"),
    "announces 4 GiB": (
        lambda: patched(_CENTRAL, 24, b"\xfe\xff\xff\xff"),
        "announces 17179869176 bytes of data",
    ),
    "announces too little": (lambda: patched(_CENTRAL, 24, b"\x80\0\0\0"), f"{_NOT_PLAIN} .Bad CRC"),
    "future version": (lambda: patched(_CENTRAL, 6, b"\xff\xff"), f"{_NOT_PLAIN} .zip file version"),
    "offset beyond the end": (lambda: patched(_CENTRAL, 42, b"\xf0\xff\xff\x7f"), _NOT_PLAIN),
    "no local header": (lambda: patched(_LOCAL, 0, b"XXXX"), _NOT_PLAIN),
    "longer name": (lambda: patched(_CENTRAL, 28, b"\xff\xff"), "array 'x_test' is missing"),
    "longer extra": (lambda: patched(_CENTRAL, 30, b"\xff\xff"), _NOT_PLAIN),
    "huge list": (lambda: patched(_END, 12, b"\xff\xff\xff\x7f"), _NOT_PLAIN),
    "list elsewhere": (lambda: patched(_END, 16, b"\xff\xff\xff\x7f"), _NOT_PLAIN),
    "lying zip64": (lambda: patched(_END, 12, b"\xff" * 8), _NOT_PLAIN),
    "end only": (lambda: _END + bytes(18), "array 'x_test' is missing; it holds nothing"),
    "names with escapes": (lambda: zipped({"\x1b[2J\n.npy": b"", "\u202eb": b""}), r"it holds \\x1b\[2J "),
    "long names": (lambda: zipped({"a" * 60_000: b""}), r"it holds a+\.\.\., expected"),
    "names that lead outside": (
        lambda: zipped({"../x_test.npy": b"", "/x_test.npy": b""}),
        "x_test' is missing",
    ),
    "a single array": (lambda: npy(described("(1,)"), b"a"), "a single array, expected"),
    "nothing": (lambda: b"", _NOT_PLAIN),
    "a page": (lambda: b"<html>log in first</html>", _NOT_PLAIN),
    "a pickle": (lambda: b"\x80\x04cos\nsystem\n(S'id'\ntR.", _NOT_PLAIN),
    "a bomb": (bomb, "announces 134.* bytes of data, allowed are 67108864, half of the memory"),
    "a bomb that lies": (lying_bomb, f"{_NOT_PLAIN} .Bad CRC"),
}
