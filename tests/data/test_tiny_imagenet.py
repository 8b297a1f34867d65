from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image

from soar.data import load, tiny_imagenet
from soar.data.files import FETCHABLE
from soar.errors import UserError
from tests.data.test_published import described

IDS = ("n02", "n01", "n03")


def jpeg(level: int, *, side: int = 64, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (side, side), level if mode == "L" else (level, 0, 255 - level)).save(file, "JPEG")
    return file.getvalue()


def write(folder: Path, **changes: bytes | None) -> None:
    """Write a small archive of the official layout: two training and two test images of three classes."""
    inside = "tiny-imagenet-200"
    members = {"wnids.txt": "\n".join(IDS).encode() + b"\n"}
    members["words.txt"] = b"n00\tother\nn01\tgoldfish, Carassius auratus\nn02\tfrog\nn03\tblack widow\n"
    annotations = []
    for number, name in enumerate(IDS):
        members[f"train/{name}/{name}_boxes.txt"] = f"{name}_0.JPEG\t0\t0\t62\t62\n".encode()
        for place in range(2):
            members[f"train/{name}/images/{name}_{place}.JPEG"] = jpeg(80 * number + 10 * place)
            members[f"val/images/val_{2 * number + place}.JPEG"] = jpeg(
                80 * number, mode="L" if place else "RGB"
            )
            annotations.append(f"val_{2 * number + place}.JPEG\t{name}\t0\t32\t44\t62\n")
    members["val/val_annotations.txt"] = "".join(annotations).encode()
    members["test/images/test_0.JPEG"] = jpeg(0)
    members |= {name: content for name, content in changes.items() if content is not None}
    with ZipFile(folder / "tiny-imagenet-200.zip", "w") as archive:
        for name, content in members.items():
            if changes.get(name, content) is not None:
                archive.writestr(f"{inside}/{name}", content)


def publish(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: bytes | None) -> None:
    write(folder, **changes)
    (file,) = FETCHABLE["tiny-imagenet"]
    contents = (folder / file.name).read_bytes()
    monkeypatch.setitem(FETCHABLE, "tiny-imagenet", (described(file.name, contents),))


def test_classes_are_folders_and_the_labeled_validation_images_are_the_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny-imagenet").mkdir()
    publish(tmp_path / "tiny-imagenet", monkeypatch)
    data = load("tiny-imagenet", root=tmp_path, validation=0)
    assert data.classes == ("goldfish", "frog", "black widow") and data.shape == (3, 64, 64)
    source = tiny_imagenet.read(tmp_path / "tiny-imagenet")
    assert source.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert source.test.labels.tolist() == [1, 1, 0, 0, 2, 2]
    # The red level tells which image it is, up to what JPEG changes.
    red = source.train.images[:, 0].double().mean(dim=(1, 2))
    np.testing.assert_allclose(red, [80, 90, 0, 10, 160, 170], atol=2)
    assert source.test.images[1].unique().numel() <= 3 and source.test.images[0, 2].min() > 250


@pytest.mark.parametrize(("change", "message"), [
    ({"val/val_annotations.txt": None}, "not the archive of Tiny ImageNet"),
    ({"val/val_annotations.txt": b"val_0.JPEG\tn77\t0\t0\t0\t0\n"}, "not the archive of Tiny ImageNet"),
    ({"val/images/val_0.JPEG": b"no picture"}, "not the archive of Tiny ImageNet"),
    ({"val/images/val_0.JPEG": jpeg(0, side=32)}, "32 x 32 pixels, expected 64 x 64"),
    ({"words.txt": b"n01 goldfish"}, "not the archive of Tiny ImageNet"),
])  # fmt: skip
def test_damage_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, bytes | None], message: str
) -> None:
    publish(tmp_path, monkeypatch, **change)
    with pytest.raises(UserError, match=message):
        tiny_imagenet.read(tmp_path)


def test_another_archive_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UserError, match=r"wrong contents.*run `soar data verify"):
        tiny_imagenet.read(tmp_path)
