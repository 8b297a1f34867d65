import numpy as np
import pytest

from soar.data.source import examples, no_examples
from soar.errors import UserError

IMAGES = np.zeros((3, 1, 2, 2), np.uint8)


def test_examples_are_numbered_and_labels_widened() -> None:
    found = examples(IMAGES, np.array([1, 0, 1], np.uint8), num_classes=2, where="file")
    assert found.indices.tolist() == [0, 1, 2]
    assert found.labels.dtype == np.int64
    assert len(found) == 3


def test_numbers_of_images_and_labels_must_agree() -> None:
    with pytest.raises(UserError, match=r"^file: got 3 images but 2 labels$"):
        examples(IMAGES, np.array([0, 1]), num_classes=2, where="file")


@pytest.mark.parametrize("labels", [[0, 1, 2], [-1, 0, 1]])
def test_labels_must_be_in_range(labels: list[int]) -> None:
    expected = f"^file: got labels from {labels[0]} to {labels[2]}, allowed are 0 to 1$"
    with pytest.raises(UserError, match=expected):
        examples(IMAGES, np.array(labels), num_classes=2, where="file")


def test_no_examples_have_the_shape_of_images() -> None:
    assert no_examples((3, 4, 5)).images.shape == (0, 3, 4, 5)
