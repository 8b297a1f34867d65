from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from soar.data.corruptions import CORRUPTIONS, corrupt
from soar.data.corruptions.files import CorruptedFiles
from soar.errors import UserError

COUNT = 4
LABELS = torch.tensor([3, 1, 4, 1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files in the layout of CIFAR-10-C: all images at severity 1, then at 2, and so on."""
    images = (torch.arange(COUNT * 3 * 8 * 8) % 251).to(torch.uint8).reshape(COUNT, 3, 8, 8)
    for name in CORRUPTIONS:
        blocks = [corrupt(images, name, severity).permute(0, 2, 3, 1).numpy() for severity in range(1, 6)]
        np.save(tmp_path / f"{name}.npy", np.concatenate(blocks))
    np.save(tmp_path / "labels.npy", np.tile(LABELS.numpy(), 5).astype(np.uint8))
    return tmp_path


def test_images_are_found_by_severity_and_position(folder: Path) -> None:
    images = (torch.arange(COUNT * 3 * 8 * 8) % 251).to(torch.uint8).reshape(COUNT, 3, 8, 8)
    files, rows = CorruptedFiles(folder), torch.tensor([2, 0])
    for name in ("contrast", "pixelate"):
        for severity in (1, 5):
            found = files.images(name, severity, rows, LABELS[rows])
            torch.testing.assert_close(found, corrupt(images, name, severity)[rows])


def test_other_images_are_refused(folder: Path) -> None:
    files = CorruptedFiles(folder)
    with pytest.raises(UserError, match=r"holds 4 images of each severity, but not image 4; expected"):
        files.images("fog", 1, torch.tensor([0, 4]), LABELS[:2])
    with pytest.raises(UserError, match=r"image 1 has label 1, but 2 in the data"):
        files.images("fog", 3, torch.tensor([0, 1]), torch.tensor([3, 2]))


def keep(path: Path, array: object, *, allow_pickle: bool = False) -> None:
    path.unlink()
    np.save(path, np.asarray(array), allow_pickle=allow_pickle)


@pytest.mark.parametrize(("damage", "message"), [
    (lambda at: (at / "snow.npy").unlink(), "snow.npy: cannot be read"),
    (lambda at: keep(at / "fog.npy", np.zeros((20, 3, 8, 8), np.uint8)), "uint8 of shape \\(20, height"),
    (lambda at: keep(at / "fog.npy", np.zeros((20, 8, 8, 3))), "fog.npy: got float64"),
    (lambda at: keep(at / "fog.npy", [None], allow_pickle=True), "fog.npy: not an .npy file of a plain"),
    (lambda at: keep(at / "labels.npy", np.zeros(7, int)), "labels.npy: got int64 of shape \\(7,\\)"),
    (lambda at: keep(at / "labels.npy", np.zeros(20)), "labels.npy: got float64"),
    (lambda at: (at / "fog.npy").write_bytes(b"PK\x03\x04"), "fog.npy: not an .npy file"),
    (lambda at: (at / "fog.npy").write_bytes(b"PK\x05\x06" + bytes(18)), "not an .npy"),
])  # fmt: skip
def test_damaged_files_are_named_before_anything_is_measured(
    folder: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder)
    with pytest.raises(UserError, match=message):
        CorruptedFiles(folder)
