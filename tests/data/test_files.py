import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from soar.data.files import File, find, place, read_bytes, state
from soar.errors import UserError

CONTENTS = b"contents of a file"
FILE = File("name", len(CONTENTS), hashlib.md5(CONTENTS).hexdigest())


def test_place_writes_the_file_and_nothing_else(tmp_path: Path) -> None:
    place(tmp_path, FILE, [CONTENTS[:5], CONTENTS[5:]])
    assert (tmp_path / "name").read_bytes() == CONTENTS
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_place_refuses_wrong_contents_and_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"old")
    with pytest.raises(UserError, match=r"name: wrong contents, md5 is .*, published is "):
        place(tmp_path, FILE, [b"something else"])
    assert (tmp_path / "name").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_place_leaves_nothing_when_interrupted(tmp_path: Path) -> None:
    def interrupted() -> Iterator[bytes]:
        yield CONTENTS[:5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place(tmp_path, FILE, interrupted())
    assert list(tmp_path.iterdir()) == []


def test_state_of_a_plain_file(tmp_path: Path) -> None:
    assert state(tmp_path, FILE) == "missing"
    (tmp_path / "name").write_bytes(CONTENTS)
    assert state(tmp_path, FILE) == "ok"
    (tmp_path / "name").write_bytes(CONTENTS[:-1])
    assert state(tmp_path, FILE) == "damaged"


def test_state_of_a_compressed_file_is_that_of_its_contents(tmp_path: Path) -> None:
    packed = gzip.compress(CONTENTS, mtime=1)
    (tmp_path / "name.gz").write_bytes(packed)
    assert state(tmp_path, FILE) == "ok"
    (tmp_path / "name.gz").write_bytes(packed[:-9])
    assert state(tmp_path, FILE) == "damaged"


def test_the_plain_file_is_preferred(tmp_path: Path) -> None:
    (tmp_path / "name.gz").write_bytes(b"")
    assert find(tmp_path, "name") == tmp_path / "name.gz"
    (tmp_path / "name").write_bytes(b"")
    assert find(tmp_path, "name") == tmp_path / "name"


@pytest.mark.parametrize("contents", [b"not gzip", gzip.compress(CONTENTS, mtime=0)[:-9]])
def test_reading_a_damaged_gzip_file_is_the_users_error(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "name.gz").write_bytes(contents)
    with pytest.raises(UserError, match=r"name\.gz: damaged gzip file"):
        read_bytes(tmp_path / "name.gz")
