import numpy as np
import pytest
import torch
from torch import Tensor

from soar.data import Split, to_unit
from soar.data.dataset import from_files, labeled
from soar.errors import UserError


def split(n: int = 5) -> Split:
    images = torch.arange(n * 4, dtype=torch.uint8).view(n, 1, 2, 2)
    return Split(images, torch.arange(n) % 3, torch.arange(n) + 100)


def test_subset_keeps_images_labels_and_indices_together() -> None:
    chosen = split().subset(torch.tensor([4, 1]))
    assert chosen.images[:, 0, 0, 0].tolist() == [16, 4]
    assert chosen.labels.tolist() == [1, 1]
    assert chosen.indices.tolist() == [104, 101]


def test_subset_takes_a_mask() -> None:
    assert split().subset(split().labels == 0).indices.tolist() == [100, 103]


def test_first_is_the_beginning_or_everything() -> None:
    assert split().first(2).indices.tolist() == [100, 101]
    assert len(split().first(99)) == 5
    assert len(split().first(0)) == 0


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(2, 1, 2, 2), torch.arange(2), r"images: got torch.float32 of shape \(2, 1, 2"),
        (torch.zeros(2, 2, 2, dtype=torch.uint8), torch.arange(2), r"expected uint8 \(N, channels"),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.arange(3), r"labels: got .*int64 \(2,\)"),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(2), r"labels: got torch.float32"),
    ],
)
def test_a_split_must_fit_together(images: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Split(images, labels, torch.arange(2))


def test_every_byte_becomes_its_255th() -> None:
    exact = torch.arange(256, dtype=torch.float64) / 255
    found = to_unit(torch.arange(256).to(torch.uint8))
    assert found.dtype == torch.float32
    assert torch.equal(found, exact.to(torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_numbers_in_the_unit_interval_pass(dtype: torch.dtype) -> None:
    images = torch.tensor([0.0, 0.25, 1.0], dtype=dtype)
    assert to_unit(images) is images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.tensor([0.0, 255.0]), r"got values from 0 to 255, allowed .* inside the model"),
        (torch.tensor([-0.1, 0.5]), r"got values from -0.1 to 0.5"),
        (torch.tensor([float("nan"), 0.5]), r"got values from nan to nan"),
        (torch.tensor([1, 2]), r"images: got torch.int64, allowed are uint8 and floats in \[0, 1\]"),
    ],
)
def test_anything_else_is_refused(images: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        to_unit(images)


IMAGES = np.zeros((3, 1, 2, 2), np.uint8)


def test_examples_are_numbered_and_labels_widened() -> None:
    found = labeled(IMAGES, np.array([1, 0, 1], np.uint8), num_classes=2, where="file")
    assert found.indices.tolist() == [0, 1, 2]
    assert found.labels.dtype == torch.int64
    assert len(found) == 3


def test_numbers_of_images_and_labels_must_agree() -> None:
    with pytest.raises(UserError, match=r"^file: got 3 images but 2 labels$"):
        labeled(IMAGES, np.array([0, 1]), num_classes=2, where="file")


@pytest.mark.parametrize("labels", [[0, 1, 2], [-1, 0, 1]])
def test_labels_must_be_in_range(labels: list[int]) -> None:
    expected = f"^file: got labels from {labels[0]} to {labels[2]}, allowed are 0 to 1$"
    with pytest.raises(UserError, match=expected):
        labeled(IMAGES, np.array(labels), num_classes=2, where="file")


def test_a_data_set_without_training_examples_keeps_the_shape_of_its_images() -> None:
    found = from_files("file", ("a",), None, labeled(IMAGES, np.zeros(3, np.int64), num_classes=1, where=""))
    assert found.train.images.shape == (0, 1, 2, 2) and found.shape == (1, 2, 2) and len(found.test) == 3
