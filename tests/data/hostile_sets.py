"""Files of named datasets that were made to break their readers."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from soar.data import cifar10, fashion_mnist, svhn
from soar.data.dataset import Dataset
from tests.data.test_fashion_mnist import idx

RECORD = bytes([3]) + bytes(range(256)) * 12
READERS: dict[str, Callable[[Path], Dataset]] = {
    "idx": fashion_mnist.read,
    "idx.gz": fashion_mnist.read,
    "bin": cifar10.read,
    "mat": svhn.read,
}
# The file of each format that is read last.
LAST = {
    "idx": "t10k-labels-idx1-ubyte",
    "idx.gz": "t10k-images-idx3-ubyte.gz",
    "bin": "test_batch.bin",
    "mat": "test_32x32.mat",
}


def matlab(**variables: Any) -> bytes:
    from scipy.io import savemat

    usual = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [10]], np.uint8)}
    packed = io.BytesIO()
    savemat(packed, usual | variables, do_compression=bool(variables.pop("packed", False)))
    return packed.getvalue()


def valid(kind: str) -> dict[str, bytes]:
    """Return the files of a small dataset by name."""
    if kind == "mat":
        return {
            name: matlab(packed=packed) for name, packed in (("train_32x32.mat", True), (LAST["mat"], False))
        }
    if kind == "bin":
        return {file.name: RECORD * 2 for file in cifar10.FILES}
    pixels, labels = idx(np.arange(2 * 28 * 28).reshape(2, 28, 28) % 251), idx(np.array([3, 4]))
    contents = {file.name: pixels if "images" in file.name else labels for file in fashion_mnist.FILES}
    if kind == "idx":
        return contents
    return {f"{name}.gz": gzip.compress(held, mtime=0) for name, held in contents.items()}


def zeros(size: int) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as stream:
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))
    return packed.getvalue()


def element(kind: int, data: bytes, size: int | None = None) -> bytes:
    return struct.pack("<II", kind, len(data) if size is None else size) + data + bytes(-len(data) % 8)


def variable(name: bytes, kind: int, shape: tuple[int, ...], data: bytes) -> bytes:
    parts = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape))
    return element(14, parts + element(1, name) + data)


def mat_file(*elements: bytes, head: bytes = b"MATLAB".ljust(124) + b"\x00\x01IM") -> bytes:
    return head + b"".join(elements)


def _nested(depth: int) -> bytes:
    inside = variable(b"", 9, (1, 1), element(2, b"\0"))
    for _ in range(depth):
        inside = variable(b"", 1, (1, 1), inside)
    return variable(b"X", 1, (1, 1), inside)


def _packed(size: int) -> bytes:
    data = zlib.compress(variable(b"Z", 9, (1, size), element(2, bytes(size))), 1)
    return struct.pack("<II", 15, len(data)) + data


_Y = variable(b"y", 9, (2, 1), element(2, b"\1\2"))
_BAD = r"not a readable MATLAB file .*run `soar data verify svhn`"

CASES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "more values than numbers have": (
        "idx",
        lambda: bytes([0, 0, 8, 1]) + b"\xff" * 4,
        "expected 4294967295 for",
    ),
    "product that overflows": (
        "idx.gz",
        lambda: gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">III", 2**16, 2**24, 2**24)),
        "got 0 values, expected 18446744073709551616 for",
    ),
    "largest lengths": (
        "idx.gz",
        lambda: gzip.compress(bytes([0, 0, 8, 3]) + b"\xff" * 12),
        "got 0 values, expected 79228162458924105385300197375",
    ),
    "no images": (
        "idx.gz",
        lambda: gzip.compress(bytes([0, 0, 8, 3]) + bytes(12)),
        "(expected some|got 0 images)",
    ),
    "images of no height": (
        "idx.gz",
        lambda: gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">III", 2, 0, 2**31)),
        "expected some",
    ),
    "numbers of four bytes": (
        "idx",
        lambda: bytes([0, 0, 12, 1]) + bytes(12),
        "begins with bytes 00 00 0c 01",
    ),
    "nothing in idx": ("idx", lambda: b"", "begins with bytes , expected"),
    "three bytes": ("idx", lambda: b"\0\0\x08", "begins with bytes 00 00 08, expected"),
    "escapes in idx": ("idx", lambda: b"\x1b[2J\n", "begins with bytes 1b 5b 32 4a"),
    "label of 200": ("idx", lambda: idx(np.array([3, 200])), "got labels from 3 to 200"),
    "other number of labels": ("idx", lambda: idx(np.array([3])), "got 2 images but 1 labels"),
    "longer than published": ("idx", lambda: idx(np.zeros(10_001)), "10009 bytes, allowed are at most 10008"),
    "gzip bomb": ("idx.gz", lambda: zeros(64 << 20), "unpacks to more than the 7840016 bytes"),
    "gzip of a long file": (
        "idx.gz",
        lambda: gzip.compress(bytes(7_840_017)),
        "unpacks to more than the 7840016",
    ),
    "nothing in gzip": ("idx.gz", lambda: b"", "begins with bytes , expected"),
    "no gzip": ("idx.gz", lambda: b"<html>log in first</html>", "damaged gzip file .Not a gzipped file"),
    "gzip cut short": ("idx.gz", lambda: valid("idx.gz")[LAST["idx.gz"]][:-9], "damaged gzip file"),
    "gzip with a wrong sum": (
        "idx.gz",
        lambda: valid("idx.gz")[LAST["idx.gz"]][:-8] + bytes(8),
        "CRC check failed",
    ),
    "gzip with a tail": ("idx.gz", lambda: valid("idx.gz")[LAST["idx.gz"]] + b"tail", "damaged gzip file"),
    "gzip with an endless name": (
        "idx.gz",
        lambda: b"\x1f\x8b\x08\x08" + b"a" * 100_000,
        "damaged gzip file",
    ),
    "gzip of unknown method": (
        "idx.gz",
        lambda: b"\x1f\x8b\xff\x00" + bytes(20),
        "Unknown compression method",
    ),
    "gzip with wild blocks": (
        "idx.gz",
        lambda: b"\x1f\x8b\x08\0" + bytes(6) + b"\xff" * 40,
        "damaged gzip file",
    ),
    "many empty gzips": (
        "idx.gz",
        lambda: gzip.compress(b"", mtime=0) * 20_000,
        "begins with bytes , expected",
    ),
    "gzip of 9 MB": ("idx.gz", lambda: bytes(9 << 20), "allowed are at most 8888592"),
    "cifar label": ("bin", lambda: b"\xff" + RECORD[1:], "got labels from 255 to 255, allowed are 0 to 9"),
    "cifar cut short": ("bin", lambda: RECORD[:-1], "got 3072 bytes, expected records of 3073"),
    "cifar of nothing": ("bin", lambda: b"", "got 0 bytes, expected records"),
    "cifar of a page": ("bin", lambda: b"<html>" * 9, "got 54 bytes, expected records"),
    "cifar too long": ("bin", lambda: bytes(30_730_001), "30730001 bytes, allowed are at most 30730000"),
    "mat bomb": ("mat", lambda: mat_file(_packed(300 << 20)), f"more than 268435456 bytes.*{_BAD[-20:]}"),
    "mat of many bombs": ("mat", lambda: mat_file(*[_packed(100 << 20)] * 3), "more than 268435456 bytes of"),
    "mat of nothing": ("mat", lambda: b"", _BAD),
    "mat of a page": ("mat", lambda: b"<html>log in first</html>" * 9, _BAD),
    "mat of version 4": ("mat", lambda: struct.pack("<5I", 0, 1, 1, 0, 2) + b"X\0" + bytes(200), _BAD),
    "mat of version 7.3": ("mat", lambda: mat_file(head=b"MATLAB 7.3".ljust(124) + b"\x00\x02IM"), _BAD),
    "mat of the other order": ("mat", lambda: mat_file(head=b"MATLAB".ljust(124) + b"\x01\x00MI"), _BAD),
    "mat without variables": ("mat", mat_file, "variable 'X' is missing"),
    "mat of half a tag": ("mat", lambda: mat_file(b"\x0f\0\0"), _BAD),
    "mat of 4 GiB": ("mat", lambda: mat_file(struct.pack("<II", 15, 2**32 - 1)), _BAD),
    "mat with wild blocks": ("mat", lambda: mat_file(element(15, b"\xff" * 32)), _BAD),
    "mat of packed nothing": ("mat", lambda: mat_file(element(15, zlib.compress(b""))), _BAD),
    "mat of unknown kinds": ("mat", lambda: mat_file(element(99, bytes(8))), _BAD),
    "mat with a cell": (
        "mat",
        lambda: mat_file(_nested(1), _Y),
        "variable 'X' is of kind cell, expected numbers",
    ),
    "mat with nested cells": (
        "mat",
        lambda: mat_file(_nested(1500), _Y),
        "is of kind cell, expected numbers",
    ),
    "mat with a structure": ("mat", lambda: matlab(X={"a": 1}), "variable 'X' is of kind struct, expected"),
    "mat with text": ("mat", lambda: matlab(y="text"), "variable 'y' is of kind char, expected numbers"),
    "mat with huge sides": (
        "mat",
        lambda: mat_file(variable(b"X", 9, (32, 32, 3, 2**31 - 1), element(2, b"\0")), _Y),
        _BAD,
    ),
    "mat with negative sides": (
        "mat",
        lambda: mat_file(variable(b"X", 9, (-1, -1), element(2, b"\0")), _Y),
        ".",
    ),
    "mat with 40 dimensions": (
        "mat",
        lambda: mat_file(variable(b"X", 9, (1,) * 40, element(2, b"\0")), _Y),
        _BAD,
    ),
    "mat with data of 4 GiB": (
        "mat",
        lambda: mat_file(variable(b"X", 9, (32, 32, 3, 2), element(2, b"\0", 2**32 - 1)), _Y),
        _BAD,
    ),
    "mat with the wrong shape": (
        "mat",
        lambda: matlab(X=np.zeros((3, 3), np.uint8)),
        r"X is uint8 of shape \(3, 3",
    ),
    "mat with no images": ("mat", lambda: matlab(X=np.zeros((32, 32, 3, 0), np.uint8)), "."),
    "mat with no numbers": ("mat", lambda: matlab(y=np.array([[np.nan], [1]])), "expected whole numbers"),
    "mat with a label of 2**60": (
        "mat",
        lambda: matlab(y=np.array([[2**60], [1]])),
        "got labels from 1 to 1152",
    ),
    "mat with complex labels": ("mat", lambda: matlab(y=np.array([[1j], [1]])), "expected whole numbers"),
    "mat with other names": (
        "mat",
        lambda: mat_file(variable(b"\x1b[2J", 9, (1, 1), element(2, b"\0"))),
        "'X' is",
    ),
}
