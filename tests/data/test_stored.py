"""Images that are read from their files, whatever holds them: the same bytes as in memory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from soar.data import Augmentation, Dataset, Split, load, stored, training_batches
from soar.data.decoding import Framing, Header, decode, header
from soar.data.stored import StoredImages
from soar.errors import UserError

COUNT, CLASSES = 30, 3
SOURCES = ("folder", "npy", "webdataset", "own")


def made(size: tuple[int, int] = (9, 7)) -> tuple[np.ndarray, np.ndarray]:
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, *size, 3), dtype=np.uint8)
    return pixels, np.arange(COUNT) % CLASSES


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def as_folder(root: Path) -> str:
    for part in ("train", "test"):
        for row, (image, label) in enumerate(zip(*made(), strict=True)):
            path = root / part / f"c{label}" / f"{row:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(image))
    return f"folder:{root}"


def as_npy(root: Path) -> str:
    images, labels = made()
    for part in ("train", "test"):
        np.save(root / f"x_{part}.npy", images)
        np.save(root / f"y_{part}.npy", labels)
    return f"npy:{root}"


def shard(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def as_shards(root: Path) -> str:
    images, labels = made()
    for part in ("train", "test"):
        for first in (0, COUNT // 2):
            members: dict[str, bytes] = {}
            for row in range(first, first + COUNT // 2):
                members |= {f"{row:03}.png": png(images[row]), f"{row:03}.cls": str(labels[row]).encode()}
            shard(root / f"{part}-{first:03}.tar", members)
    return f"webdataset:{root}"


OWN = """
import numpy as np

class Items:
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        return self.images[row], int(self.labels[row])

def build():
    found = np.load({path!r})
    return (Items(found["x"], found["y"]),) * 2
"""


def as_own(root: Path) -> str:
    images, labels = made()
    np.savez(root / "own.npz", x=images, y=labels)
    name = f"made_{abs(hash(root))}"
    (root / f"{name}.py").write_text(OWN.format(path=str(root / "own.npz")))
    return f"{name}:build"


MAKERS: dict[str, Callable[[Path], str]] = dict(
    zip(SOURCES, (as_folder, as_npy, as_shards, as_own), strict=True)
)


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take nothing for small."""
    monkeypatch.setattr(stored, "_SMALL", 0)


def loaded(kind: str, root: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Dataset:
    name = MAKERS[kind](root)
    monkeypatch.syspath_prepend(root)
    return load(name, **settings)


def by_class(split: Split) -> list[list[bytes]]:
    images = split.images.numpy()
    return [sorted(image.tobytes() for image in images[split.labels.numpy() == c]) for c in range(CLASSES)]


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_images_and_labels_that_were_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: None
) -> None:
    found = loaded(kind, tmp_path, monkeypatch, validation=6)
    assert isinstance(found.train.stored, StoredImages)
    assert (found.shape, len(found.classes), len(found.train), len(found.test)) == ((3, 9, 7), 3, 24, 30)
    images, labels = made()
    whole = [sorted(i.transpose(2, 0, 1).tobytes() for i in images[labels == c]) for c in range(CLASSES)]
    assert by_class(found.test) == whole
    learned, held_out = by_class(found.train), by_class(found.validation)
    assert [sorted(a + b) for a, b in zip(learned, held_out, strict=True)] == whole


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("workers", [0, 3])
def test_streamed_batches_are_those_of_memory_bit_for_bit_after_a_resume_too(
    kind: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {
        "batch_size": 4,
        "seed": 1,
        "epoch": 2,
        "augmentation": Augmentation(crop_padding=2, flip=True),
    }
    kept = loaded(kind, tmp_path, monkeypatch).train
    assert isinstance(kept.stored, torch.Tensor)
    monkeypatch.setattr(stored, "_SMALL", 0)
    streamed = load(MAKERS[kind](tmp_path)).train
    expected = [*training_batches(kept, **settings)][3:]
    found = [*training_batches(streamed, **settings, start=3, num_workers=workers)]
    for left, right in zip(expected, found, strict=True):
        assert all(torch.equal(*pair) for pair in zip(left, right, strict=True))


@given(rows=st.lists(st.integers(0, 29), min_size=1), chosen=st.data())
def test_selecting_twice_is_selecting_once(rows: list[int], chosen: st.DataObject) -> None:
    class Numbers(StoredImages):
        def read(self, rows: Any) -> Any:
            return np.broadcast_to(rows.astype(np.uint8)[:, None, None, None], (len(rows), 1, 1, 1)).copy()

    some = Numbers((30, 1, 1, 1)).at(torch.tensor(rows))
    again = chosen.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    assert some.at(torch.tensor(again))[:].flatten().tolist() == [rows[place] for place in again]
    assert some.at(slice(2))[:].flatten().tolist() == rows[:2]


def test_resize_and_crop_of_a_constant_and_of_a_ramp() -> None:
    flat = decode(png(np.full((20, 30, 3), 77, np.uint8)), "here", 3, Framing(10, 8))
    assert flat.shape == (3, 8, 8) and (flat == 77).all()
    ramp = np.repeat(np.arange(0, 240, 8, dtype=np.uint8)[None], 20, axis=0)
    cut = decode(png(ramp), "here", 1, Framing(crop=10))
    assert cut[0, 0].tolist() == ramp[0, 10:20].tolist()
    halved = decode(png(ramp), "here", 1, Framing(10, 10))[0, 5].astype(int)
    # The middle ten of fifteen, each the mean of two neighbors up to the filter's width.
    assert np.abs(halved - ramp[0].reshape(15, 2).mean(axis=1)[2:12]).max() <= 1
    assert header(png(ramp), "here") == Header(30, 20, is_gray=True)


def test_a_large_jpeg_is_decoded_at_a_smaller_size_and_looks_the_same() -> None:
    smooth = np.add.outer(np.arange(0, 640, 2), np.arange(0, 640, 2)) // 6
    stream = io.BytesIO()
    Image.fromarray(smooth.astype(np.uint8)).save(stream, "JPEG", quality=95)
    found = decode(stream.getvalue(), "here", 1, Framing(32, 32))[0].astype(int)
    expected = smooth.reshape(32, 10, 32, 10).mean(axis=(1, 3))
    assert np.abs(found - expected)[1:-1, 1:-1].max() < 3


def test_mixed_sizes_need_a_crop(tmp_path: Path) -> None:
    for row, size in enumerate(((20, 30), (25, 18), (40, 40), (16, 50)) * 3):
        path = tmp_path / "test" / "ab"[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(np.full((*size, 3), 10 * row, np.uint8)))
    with pytest.raises(UserError, match="expected images of one size, or data"):
        load(f"folder:{tmp_path}")
    found = load(f"folder:{tmp_path}", resize=16, crop=12)
    assert found.shape == (3, 12, 12)
    assert sorted(found.test.images[:, 0, 0, 0].tolist()) == [10 * row for row in range(12)]
    with pytest.raises(UserError, match=r"0\.png: 30 x 20 pixels, too few for data\.crop 24"):
        load(f"folder:{tmp_path}", crop=24)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resize": 16}, "data.crop: missing"),
        ({"resize": 8, "crop": 16}, "data.crop: got 16, expected at most data.resize, 8"),
    ],
)
def test_framing_that_cannot_be(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        load(as_folder(tmp_path), **settings)


def test_only_encoded_images_can_be_resized(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be used with npy:.*, expected one of folder, webdataset"):
        load(as_npy(tmp_path), crop=4)


def test_a_file_that_changes_under_the_training_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: None
) -> None:
    found = loaded("folder", tmp_path, monkeypatch)
    (tmp_path / "test/c0/000.png").write_bytes(png(np.zeros((3, 4, 3), np.uint8)))
    with pytest.raises(UserError, match=r"000\.png: 4 x 3 pixels, expected 7 x 9, as when the data"):
        found.test.stored[:]


def test_shards_with_names_and_numbers(tmp_path: Path) -> None:
    image = png(np.zeros((4, 4, 3), np.uint8))
    shard(
        tmp_path / "test-0.tar", {"a/1.png": image, "a/1.cls": b"owl", "b/1.png": image, "b/1.cls": b"cat\n"}
    )
    assert load(f"webdataset:{tmp_path}").classes == ("cat", "owl")
    shard(tmp_path / "test-0.tar", {"1.png": image, "1.cls": b"2", "2.png": image, "2.cls": b"0"})
    assert load(f"webdataset:{tmp_path}").classes == ("0", "1", "2")
    (tmp_path / "classes.txt").write_text("ant\nbee\ncow")
    found = load(f"webdataset:{tmp_path}")
    assert (found.classes, found.test.labels.tolist()) == (("ant", "bee", "cow"), [2, 0])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"1.png": b"x"}, r"1\.png has no class, expected a member 1\.cls"),
        ({"1.cls": b"0"}, r"has no images in test\*\.tar or val\*\.tar"),
        ({"1.png": b"x", "1.cls": b"0"}, r"test\.tar: 1\.png: cannot be read as an image"),
    ],
)
def test_shards_that_are_not_complete(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    shard(tmp_path / "test.tar", members)
    with pytest.raises(UserError, match=message):
        load(f"webdataset:{tmp_path}")


def test_a_shard_that_is_no_tar_file(tmp_path: Path) -> None:
    (tmp_path / "test.tar").write_bytes(b"\x1f\x8b rubbish")
    with pytest.raises(UserError, match=r"test\.tar: not an uncompressed tar file"):
        load(f"webdataset:{tmp_path}")


def test_arrays_in_fortran_order_are_refused(tmp_path: Path) -> None:
    as_npy(tmp_path)
    np.save(tmp_path / "x_test.npy", np.asfortranarray(made()[0]))
    with pytest.raises(UserError, match="stored one after the other, expected rows"):
        load(f"npy:{tmp_path}")


@pytest.mark.parametrize("name", ["x_test.npy", "y_test.npy"])
def test_a_missing_or_pickled_array(tmp_path: Path, name: str) -> None:
    as_npy(tmp_path)
    np.save(tmp_path / name, np.array([{}], object), allow_pickle=True)
    with pytest.raises(UserError, match=rf"{name}: not a \.npy file of a plain array"):
        load(f"npy:{tmp_path}")
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=name):
        load(f"npy:{tmp_path}")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def build(): return 3", "returned a int for test, expected a dataset with items"),
        ("def build(): 1 / 0", "fails .ZeroDivisionError: division by zero"),
        ("def build(): return {'train': []}", "returned no dataset called test"),
        ("import torch\ndef build(): return [(torch.rand(3, 4, 4), 0)]", "floats that are no bytes divided"),
        ("import numpy as n\ndef build(): return [(n.zeros((4, 4, 5), 'u1'), 0)]", r"has shape \(5, 4, 4\)"),
        ("import numpy as n\ndef build(): return [(n.zeros((4, 4), 'i4'), 0)]", "is of type int32"),
    ],
)
def test_functions_that_return_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    name = f"wrong_{abs(hash((tmp_path, code)))}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=message):
        load(f"{name}:build")


def test_tensors_divided_by_255_become_their_bytes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import torch\ndef build(): return [(torch.arange(256).view(1, 16, 16) / 255, 1)] * 2"
    (tmp_path / "divided_once.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert load("divided_once:build").test.images[1].flatten().tolist() == [*range(256)]


@pytest.mark.filterwarnings("ignore")
def test_datasets_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: None) -> None:
    datasets = pytest.importorskip("datasets")
    images, labels = made()
    features = datasets.Features(
        {"picture": datasets.Image(), "kind": datasets.ClassLabel(names=["ant", "bee", "cow"])}
    )
    rows = {"picture": [Image.fromarray(image) for image in images], "kind": labels.tolist()}
    table = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": table, "validation": table}).save_to_disk(tmp_path / "both")
    found = load(f"datasets:{tmp_path / 'both'}", validation=6)
    assert (found.classes, len(found.train)) == (("ant", "bee", "cow"), 24)
    rows_of = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    assert torch.equal(found.test.images, rows_of)
    with pytest.raises(UserError, match="not a folder of Hugging Face's save_to_disk"):
        load(f"datasets:{tmp_path}")


def test_the_library_of_hugging_face_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UserError, match=r"is not installed; run `pip install 'soar-robust\[datasets\]'`"):
        load(f"datasets:{tmp_path}")
