import io
import tarfile

import pytest

from soar.data.tar import members
from tests.data.hostile_archives import info

BIG = bytes(range(256)) * 5000


def packed(**contents: bytes) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, held in contents.items():
            archive.addfile(info(name, len(held), pax_headers={"comment": "\u00e9"}), io.BytesIO(held))
    stream.seek(0)
    return stream


def test_wanted_files_come_whole_and_in_the_order_of_the_archive() -> None:
    archive = packed(b=BIG, other=b"other", a=b"", c=b"c" * 512)
    found = {name: b"".join(pieces) for name, pieces in members(archive, {"a": 0, "b": len(BIG), "c": 512})}
    assert found == {"b": BIG, "a": b"", "c": b"c" * 512}
    assert [*found] == ["b", "a", "c"]


def test_contents_that_nobody_reads_are_passed_over() -> None:
    archive = packed(a=BIG, b=b"b")
    assert [name for name, _ in members(archive, {"a": len(BIG), "b": 1})] == ["a", "b"]


def test_reading_ends_when_all_were_found() -> None:
    archive = packed(a=b"a", b=BIG)
    assert [name for name, _ in members(archive, {"a": 1})] == ["a"]
    assert archive.tell() < 4096


def test_of_two_files_of_one_name_the_first_counts() -> None:
    first = info("a", 5).tobuf() + b"first".ljust(512, b"\0")
    stream = io.BytesIO(first + packed(a=b"second", b=b"b").getvalue())
    found = {name: b"".join(pieces) for name, pieces in members(stream, {"a": 9, "b": 9})}
    assert found["a"] == b"first"


def test_what_is_larger_than_allowed_is_refused_before_it_is_read() -> None:
    archive = packed(a=BIG)
    with pytest.raises(tarfile.ReadError, match="a has 1280000 bytes, allowed are at most 1279999"):
        next(members(archive, {"a": len(BIG) - 1}))
    assert archive.tell() < 4096
