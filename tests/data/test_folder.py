from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from soar.data import folder
from soar.errors import UserError

RANDOM = np.random.default_rng(0)


def picture(path: Path, *shape: int) -> np.ndarray:
    pixels = RANDOM.integers(0, 256, shape or (4, 5, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def divided(root: Path) -> dict[str, np.ndarray]:
    names = ["train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "test/cat/9.png"]
    return {name: picture(root / name) for name in names}


def test_train_and_test_folders(tmp_path: Path) -> None:
    pixels = divided(tmp_path)
    source = folder.read(tmp_path)
    assert source.classes == ("cat", "dog")
    assert source.train.labels.tolist() == [0, 0, 1]
    assert source.test.labels.tolist() == [0]
    expected = pixels["train/cat/2.png"].transpose(2, 0, 1)
    assert source.train.images[1].tolist() == expected.tolist()
    assert source.test.images[0].tolist() == pixels["test/cat/9.png"].transpose(2, 0, 1).tolist()


def test_gray_pictures_have_one_channel(tmp_path: Path) -> None:
    gray = picture(tmp_path / "test/a/1.png", 4, 5)
    source = folder.read(tmp_path)
    assert source.test.images.shape == (1, 1, 4, 5)
    assert source.test.images[0, 0].tolist() == gray.tolist()


def test_gray_among_color_becomes_color(tmp_path: Path) -> None:
    divided(tmp_path)
    gray = picture(tmp_path / "train/cat/3.png", 4, 5)
    images = folder.read(tmp_path).train.images
    assert all(images[2, channel].tolist() == gray.tolist() for channel in range(3))


def test_a_test_folder_alone_serves_evaluation(tmp_path: Path) -> None:
    picture(tmp_path / "test/a/1.png")
    source = folder.read(tmp_path)
    assert source.train.images.shape == (0, 3, 4, 5)
    assert len(source.test) == 1


def test_class_folders_alone_give_a_fixed_fifth_for_the_test(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(10):
            picture(tmp_path / name / f"{number}.png")
    source, again = folder.read(tmp_path), folder.read(tmp_path)
    assert np.bincount(source.test.labels).tolist() == [2, 2]
    assert np.bincount(source.train.labels).tolist() == [8, 8]
    assert (source.test.images == again.test.images).all()
    everything = {image.numpy().tobytes() for part in (source.train, source.test) for image in part.images}
    assert len(everything) == 20


def test_files_that_are_no_pictures_are_passed_over(tmp_path: Path) -> None:
    divided(tmp_path)
    (tmp_path / "train/cat/notes.txt").write_text("")
    (tmp_path / "train/cat/._1.png").write_text("")
    (tmp_path / "train/.hidden").mkdir()
    assert len(folder.read(tmp_path).train) == 3


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        folder.read(tmp_path / "nowhere")


def test_no_classes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no class folders, expected <class>/<image>\.png"):
        folder.read(tmp_path)


def test_an_empty_class(tmp_path: Path) -> None:
    divided(tmp_path)
    (tmp_path / "train/emu").mkdir()
    with pytest.raises(UserError, match=r"train/emu: the class folder holds no images, expected"):
        folder.read(tmp_path)


def test_train_without_test(tmp_path: Path) -> None:
    picture(tmp_path / "train/a/1.png")
    with pytest.raises(UserError, match="has train/ but no test/, expected both"):
        folder.read(tmp_path)


def test_a_class_that_was_never_learned(tmp_path: Path) -> None:
    divided(tmp_path)
    picture(tmp_path / "test/emu/1.png")
    with pytest.raises(UserError, match="class 'emu' is in test but not in train"):
        folder.read(tmp_path)


def test_one_picture_cannot_be_divided(tmp_path: Path) -> None:
    picture(tmp_path / "a/1.png")
    with pytest.raises(UserError, match="got 1 image, expected at least 2"):
        folder.read(tmp_path)


def test_pictures_of_different_sizes(tmp_path: Path) -> None:
    divided(tmp_path)
    picture(tmp_path / "train/dog/2.png", 4, 6, 3)
    with pytest.raises(UserError, match=r"dog/2\.png: 6 x 4 pixels, but .*cat/1\.png has 5 x 4; exp"):
        folder.read(tmp_path)


def test_a_damaged_picture(tmp_path: Path) -> None:
    divided(tmp_path)
    path = tmp_path / "train/dog/1.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(UserError, match=r"dog/1\.png: cannot be read as an image"):
        folder.read(tmp_path)


def test_pictures_with_more_than_eight_bits(tmp_path: Path) -> None:
    divided(tmp_path)
    Image.fromarray(np.zeros((4, 5), np.uint16)).save(tmp_path / "train/dog/2.png")
    with pytest.raises(UserError, match=r"dog/2\.png: pixels of kind 'I;16', expected 8 bits"):
        folder.read(tmp_path)
