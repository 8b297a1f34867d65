"""Files and servers that were made to do harm: each is refused in one line, or gives what it should."""

from __future__ import annotations

import gzip
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from soar.data import catalog, download, files, folder, npz
from soar.data.dataset import Dataset
from soar.data.fetch import fetch, verify
from tests.data import hostile_archives, hostile_npz, hostile_pictures, hostile_servers
from tests.data.hostile import files_below, is_sound, mutated, outcome
from tests.data.server import Server
from tests.data.test_files import make, short_name
from tests.data.test_published import READERS, described, publish

CONTENTS = (bytes([3]) + bytes(range(256)) * 12) * 2


def check(found: Dataset | str, expected: str | None) -> None:
    if expected == hostile_pictures.EITHER:
        assert isinstance(found, str) or is_sound(found)
    elif expected is None:
        assert isinstance(found, Dataset) and is_sound(found), found
    else:
        assert isinstance(found, str) and re.search(expected, found), found


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "memory_limit", lambda: 1 << 26)


@pytest.mark.parametrize("name", hostile_npz.CASES)
def test_archives_of_arrays(tmp_path: Path, name: str) -> None:
    make, expected = hostile_npz.CASES[name]
    path = tmp_path / "file.npz"
    path.write_bytes(make())
    check(outcome(lambda: npz.read(path)), expected)
    assert [*files_below(tmp_path)] == ["file.npz"]


@pytest.mark.parametrize("name", hostile_pictures.CASES)
def test_pictures(tmp_path: Path, name: str) -> None:
    suffix, make, expected = hostile_pictures.CASES[name]
    held = tmp_path / "test" / "a"
    held.mkdir(parents=True)
    for place in ("0", "1"):
        (held / f"{place}.{suffix}").write_bytes(make())

    def read() -> Dataset:
        found = folder.read(tmp_path)
        assert len(found.test.images) == 2
        return found

    check(outcome(read), expected)
    assert len(files_below(tmp_path)) == 2


def written(root: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[], Dataset], Path]:
    """Write a small dataset of some format; return how it is read, and one of its files."""
    if kind == "npz":
        (root / "file.npz").write_bytes(hostile_npz.saved())
        return lambda: npz.read(root / "file.npz"), root / "file.npz"
    if kind == "npz packed":
        (root / "file.npz").write_bytes(hostile_npz.saved(compressed=True))
        return lambda: npz.read(root / "file.npz"), root / "file.npz"
    if kind in hostile_pictures.FORMATS:
        held = root / "test" / "a"
        held.mkdir(parents=True)
        for place in ("0", "1"):
            (held / f"{place}.{kind}").write_bytes(hostile_pictures.drawn(kind))
        return lambda: folder.read(root), held / f"1.{kind}"
    publish(kind, root, monkeypatch)
    return lambda: READERS[kind](root), root / catalog.FETCHABLE[kind][-1].name


KINDS = ("npz", "npz packed", *hostile_pictures.FORMATS, *READERS)


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int) -> None:
    read, path = written(tmp_path, kind, monkeypatch)
    path.write_bytes(mutated(path.read_bytes(), seed))
    check(outcome(read), hostile_pictures.EITHER)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    read, path = written(tmp_path, kind, monkeypatch)
    contents = path.read_bytes()
    for seed in range(14, 1000):
        path.write_bytes(mutated(contents, seed))
        check(outcome(read), hostile_pictures.EITHER)


@pytest.mark.parametrize("instead", ["pipe", "folder", "socket", "device", "loop", "nothing"])
@pytest.mark.parametrize("kind", ["npz", "png", *READERS])
def test_something_else_than_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, instead: str
) -> None:
    read, path = written(tmp_path, kind, monkeypatch)
    path.unlink()
    if instead == "nothing" and kind == "png":
        path.symlink_to("gone.png")
    with short_name(path) as short:
        make(short, instead)
    check(outcome(read), r"(not a regular file|cannot be read \(.+\))")


NAMES = (
    b"a\nb.png",
    b"a\r\nsoar: all is well.png",
    b"\x1b[2J.png",
    b"\x1b]0;title\x07.png",
    b"\xff\xfe.png",
    b"\xc2\x9b31m.png",
    b"\xe2\x80\xae.png",
    b"a" * 240 + b".png",
    "\u732b \u00e9.png".encode(),
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_pictures(tmp_path: Path, name: bytes) -> None:
    held = tmp_path / "test" / "a"
    held.mkdir(parents=True)
    Path(os.fsdecode(os.path.join(os.fsencode(held), name))).write_bytes(b"no image")
    check(outcome(lambda: folder.read(tmp_path)), "cannot be read as an image")


@pytest.mark.parametrize("name", [name.removesuffix(b".png") for name in NAMES])
def test_names_of_classes(tmp_path: Path, name: bytes) -> None:
    held = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
    held.mkdir()
    for place in ("0", "1"):
        (held / f"{place}.png").write_bytes(hostile_pictures.drawn("png"))
    check(outcome(lambda: catalog.read(f"folder:{tmp_path}")), None)


@pytest.mark.parametrize(
    "name",
    [
        "folder:/proc/self/mem",
        "/dev/zero.npz",
        "npz:/dev/zero",
        "folder:~nobody-there/x",
        "npz:\0",
        "a" * 5000 + ".npz",
        "folder:" + "a/" * 3000,
        "npz:/",
        "folder:\x1b[2J",
        "npz:/proc/self/environ",
        "\n.npz",
        "npz:/dev/stdin",
    ],
)
def test_names_of_data_sets(name: str) -> None:
    assert isinstance(outcome(lambda: catalog.read(name)), str)


@pytest.fixture
def _one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """SVHN as one file of 50,000 bytes."""
    file = described("train_32x32.mat", hostile_servers.CONTENTS)
    monkeypatch.setitem(catalog.FETCHABLE, "svhn", (file,))


@pytest.mark.usefixtures("_one_file")
@pytest.mark.parametrize("name", hostile_servers.CASES)
def test_servers(tmp_path: Path, name: str) -> None:
    respond, expected, may_stay = hostile_servers.CASES[name]
    with hostile_servers.serve_raw(respond) as url:
        message = outcome(lambda: fetch("svhn", tmp_path, origin=url))
        # Those that misbehave when they are asked for the rest are asked for it.
        if isinstance(message, str) and "closed after" in message and not may_stay:
            message = outcome(lambda: fetch("svhn", tmp_path, origin=url))
    assert isinstance(message, str) and re.search(expected, message), message
    assert len(message) < 1000
    left = files_below(tmp_path)
    assert [*left] == (["svhn/train_32x32.mat.part"] if may_stay else [])
    assert sum(left.values()) <= hostile_servers.SIZE


@pytest.mark.usefixtures("_one_file")
def test_a_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_TIMEOUT_SECONDS", 0.1)
    never = threading.Event()

    def wait(*_: object) -> None:
        never.wait(30)

    with hostile_servers.serve_raw(wait) as url:
        message = outcome(lambda: fetch("svhn", tmp_path, origin=url))
    never.set()
    assert isinstance(message, str) and "not reachable (timed out)" in message


@pytest.mark.usefixtures("_one_file")
def test_a_server_that_stops_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_TIMEOUT_SECONDS", 0.1)
    never = threading.Event()

    def respond(connection: socket.socket, _: bytes) -> None:
        connection.sendall(hostile_servers.head(Content_Length=hostile_servers.SIZE) + b"begin")
        never.wait(30)

    with hostile_servers.serve_raw(respond) as url:
        message = outcome(lambda: fetch("svhn", tmp_path, origin=url))
    never.set()
    assert isinstance(message, str) and "the connection broke (timed out)" in message
    assert files_below(tmp_path) == {"svhn/train_32x32.mat.part": 5}


@pytest.mark.usefixtures("_one_file")
@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("file:///etc", "of kind file, allowed are http and https"),
        ("FILE:///etc", "of kind file, allowed are http and https"),
        ("ftp://127.0.0.1/x", "of kind ftp, allowed are http and https"),
        ("data://text/plain,x", "of kind data, allowed are http and https"),
        ("jar:http://x!/y", "not reachable|of kind jar|not an address"),
        ("gopher://127.0.0.1", "of kind gopher, allowed are"),
        ("://x", "of kind , allowed are"),
        ("http://", "it names no host"),
        ("http:///x", "it names no host"),
        ("http://:80/x", "it names no host"),
        ("http://127.0.0.1:99999", "Port out of range"),
        ("http://127.0.0.1:-1", "Port"),
        ("http://127.0.0.1:abc", "Port could not be cast"),
        ("http://[", "not an address"),
        ("http://[::1", "not an address"),
        ("http://127.0.0.1/a b", "not an address, which has no spaces"),
        ("http://127.0.0.1/\x1b[2J", r"\\x1b\[2J/train_32x32.mat: not an address, which has no spaces"),
        ("http://127.0.0.1/\r\nX: y", "not an address, which has no spaces"),
        ("http://127.0.0.1\t/", "not an address, which has no spaces"),
        ("http://\u0430.example", "not an address, which has no spaces"),
        ("http://127.0.0.1/\u202e", "not an address, which has no spaces"),
        ("http://user:word@127.0.0.1:1", "not reachable"),
        ("http://" + "a" * 300 + ".invalid", "not reachable"),
        ("http://.invalid", "not reachable"),
        ("/dev/null", "holds neither"),
        ("/proc/self", "holds neither"),
        ("~nobody-there", "Could not determine home directory"),
        ("\0", "holds neither"),
        ("a" * 5000, "holds neither"),
    ],
)
def test_origins(tmp_path: Path, origin: str, expected: str) -> None:
    message = outcome(lambda: fetch("svhn", tmp_path, origin=origin))
    assert isinstance(message, str) and re.search(expected, message), message
    assert files_below(tmp_path) == {}


@pytest.fixture
def _small_cifar10(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {file.name: CONTENTS for file in catalog.FETCHABLE["cifar10"]}
    files = tuple(described(name, held) for name, held in contents.items())
    monkeypatch.setitem(catalog.FETCHABLE, "cifar10", files)


@pytest.mark.usefixtures("_small_cifar10")
@pytest.mark.parametrize("from_folder", [False, True])
@pytest.mark.parametrize("name", hostile_archives.CASES)
def test_archives(tmp_path: Path, server: Server, name: str, from_folder: bool) -> None:
    make, expected = hostile_archives.CASES[name]
    source, root = tmp_path / "source", tmp_path / "root"
    source.mkdir()
    (source / "cifar-10-binary.tar.gz").write_bytes(make())
    server.files["/cifar-10-binary.tar.gz"] = make()
    origin = str(source) if from_folder else server.url
    message = outcome(lambda: fetch("cifar10", root, origin=origin))
    assert isinstance(message, str) and re.search(expected, message), message
    assert files_below(root) == {}
    assert [*files_below(tmp_path)] == ["source/cifar-10-binary.tar.gz"]


@pytest.mark.usefixtures("_small_cifar10")
@pytest.mark.parametrize("seed", range(14))
def test_damaged_archives(tmp_path: Path, seed: int) -> None:
    members = [
        (hostile_archives.info(f"{hostile_archives.FOLDER}/{file.name}"), CONTENTS)
        for file in catalog.FETCHABLE["cifar10"]
    ]
    source = tmp_path / "source"
    source.mkdir()
    (source / "cifar-10-binary.tar.gz").write_bytes(mutated(hostile_archives.tar(*members), seed))
    found = outcome(lambda: fetch("cifar10", tmp_path / "root", origin=str(source)))
    states = {state for _, state in verify("cifar10", tmp_path / "root")}
    assert states <= ({"ok", "missing"} if isinstance(found, str) else {"ok"})
    names = {file.name for file in catalog.FETCHABLE["cifar10"]}
    assert {Path(path).name for path in files_below(tmp_path / "root")} <= names


@pytest.mark.parametrize("from_folder", [False, True])
@pytest.mark.parametrize("size", [5, 7, 64 << 20])
def test_packed_files_of_another_size(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, size: int, from_folder: bool
) -> None:
    name = "train-images-idx3-ubyte"
    monkeypatch.setitem(catalog.FETCHABLE, "fashion-mnist", (described(name, b"pixels"),))
    source = tmp_path / "source"
    source.mkdir()
    packed = gzip.compress(bytes(size), 1, mtime=0)
    (source / f"{name}.gz").write_bytes(packed)
    server.files[f"/{name}.gz"] = packed
    origin = str(source) if from_folder else server.url
    message = outcome(lambda: fetch("fashion-mnist", tmp_path / "root", origin=origin))
    assert isinstance(message, str) and re.search("5 of the 6 bytes|more than the 6 bytes", message)
    assert files_below(tmp_path / "root") == {}


@pytest.mark.usefixtures("_one_file")
@pytest.mark.parametrize("instead", ["pipe", "folder", "socket", "device", "loop"])
def test_something_else_in_the_folder_of_a_fetch(tmp_path: Path, instead: str) -> None:
    with short_name(tmp_path / "train_32x32.mat") as path:
        make(path, instead)
    message = outcome(lambda: fetch("svhn", tmp_path / "root", origin=str(tmp_path)))
    assert isinstance(message, str) and "holds neither" in message
