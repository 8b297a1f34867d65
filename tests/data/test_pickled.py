from __future__ import annotations

import os
import pickle
import struct
from typing import Any, Literal

import numpy as np
import pytest

from soar.data.pickled import Call, array_of, read_plain, texts_of
from soar.errors import UserError


def python2(value: Any) -> bytes:
    """The opcodes that Python 2 writes for a value, in protocol 2, where texts are bytes."""
    if isinstance(value, str):
        text = value.encode()
        return b"U" + bytes([len(text)]) + text
    if isinstance(value, int):
        return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"]q\x01(" + b"".join(map(python2, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(python2(part) for pair in value.items() for part in pair) + b"u"
    assert isinstance(value, np.ndarray)
    order = b"\x88" if value.flags.f_contiguous and not value.flags.c_contiguous else b"\x89"
    content = value.tobytes(order="A")
    return b"".join([
        b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01",
        python2(value.shape[0]), python2(value.shape[1]), b"\x86",
        b"cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\t(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
        order, b"T" + struct.pack("<I", len(content)), content, b"tb",
    ])  # fmt: skip


def dumped(value: Any) -> bytes:
    return b"\x80\x02" + python2(value) + b"."


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_python_2_wrote_is_read(order: Literal["C", "F"]) -> None:
    pixels = np.arange(600, dtype=np.uint8).reshape(2, 300).copy(order=order)
    contents = dumped({"names": ["a.png", "b.png"], "fine_labels": [3, 700], "data": pixels})
    # The standard library agrees that this is such a pickle.
    assert np.array_equal(pickle.loads(contents, encoding="latin1")["data"], pixels)
    found = read_plain(contents, "train")
    assert found["names"] == ["a.png", "b.png"] and found["fine_labels"] == [3, 700]
    assert np.array_equal(array_of(found["data"]), pixels)


@pytest.mark.parametrize("protocol", [2, 3])
def test_what_python_3_writes_of_plain_values_is_read(protocol: int) -> None:
    value: dict[str, Any] = {
        "a": [1, -5, 70_000, None, True, False],
        "b": ("x", (), (1,), (1, 2), (1, 2, 3, 4)),
        "c": {},
    }
    value["d"] = [value["a"], "x"]  # the same objects again
    assert read_plain(pickle.dumps(value, protocol=protocol), "meta") == value


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("made-by-a-pickle",)


def test_nothing_is_called(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = read_plain(pickle.dumps({"data": Evil()}, protocol=2), "train")
    assert isinstance(found["data"], Call) and "mkdir" in found["data"].name
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="not an array"):
        array_of(found["data"])


@pytest.mark.parametrize("contents", [
    b"", b"\x80\x02", b"\x80\x02}", b"\x80\x02].", b"\x80\x02(u.", b"\x80\x02U\x05ab.", b"no pickle",
    pickle.dumps({"x": 1.5}, protocol=2), pickle.dumps({"x": {1, 2}}, protocol=4), b"\x80\x02h\x07.",
])  # fmt: skip
def test_anything_else_is_refused(contents: bytes) -> None:
    with pytest.raises(UserError, match=r"^train: not a pickle of plain values"):
        read_plain(contents, "train")


def test_arrays_of_other_kinds_are_refused() -> None:
    contents = dumped({"data": np.zeros((1, 2), np.uint8)}).replace(b"U\x02u1", b"U\x02f8")
    with pytest.raises(ValueError, match="not an array of bytes"):
        array_of(read_plain(contents, "train")["data"])


def test_texts_may_be_bytes() -> None:
    assert texts_of(["a", b"b"]) == ["a", "b"]
