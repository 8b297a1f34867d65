"""CutMix and random erasing: areas, labels, pixels, and draws that belong to the example."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from soar.data import Augmentation, Split, training_batches
from soar.data.patches import Boxes, draw_erasing, draw_mixing, erase, paste
from soar.errors import UserError

MANY = torch.arange(20_000)


def shares(boxes: Boxes, side: int) -> np.ndarray:
    return (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2]) / side**2


def test_a_window_of_cutmix_has_the_areas_of_the_paper() -> None:
    """A uniform share s of the area, around a uniform center, cut off at the border."""
    found = shares(draw_mixing(MANY, 1.0, 1000, 1000, seed=0, epoch=0).boxes, 1000)
    # A side a of 1, cut off at the border, has a mean length a - a^2 / 4 over its centers. Height and width
    # are cut off independently, so the mean area is E[(a - a^2 / 4)^2] over a = sqrt(s):
    # E[s] - E[s^1.5] / 2 + E[s^2] / 16 = 1/2 - 1/5 + 1/48.
    assert found.mean() == pytest.approx(1 / 2 - 1 / 5 + 1 / 48, abs=5 * 0.25 / len(found) ** 0.5)
    assert found.min() >= 0 and found.max() <= 1


def test_the_label_is_that_of_the_other_image_as_often_as_its_share() -> None:
    found = draw_mixing(MANY, 1.0, 32, 32, seed=0, epoch=0)
    share = shares(found.boxes, 32)
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.8)):
        some = (share >= low) & (share < high)
        expected, deviation = share[some].mean(), (share[some] * (1 - share[some])).sum() ** 0.5 / some.sum()
        assert abs(found.takes_label[some].mean() - expected) < 4 * deviation
    assert not found.takes_label[share == 0].any()


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_windows_come_with_their_probability(probability: float) -> None:
    deviation = 4 * (probability * (1 - probability) / len(MANY)) ** 0.5
    erased = shares(draw_erasing(MANY, probability, 64, 64, seed=1, epoch=2), 64) > 0
    assert abs(erased.mean() - probability) <= deviation
    mixed = shares(draw_mixing(MANY, probability, 640, 640, seed=1, epoch=2).boxes, 640) > 0
    # A window of less than a pixel is none.
    assert -deviation - 1e-3 <= mixed.mean() - probability <= deviation


def test_erased_windows_have_the_areas_and_proportions_of_the_paper() -> None:
    boxes = draw_erasing(MANY, 1.0, 1000, 1000, seed=0, epoch=0)
    found = shares(boxes, 1000)
    assert found.min() > 0.019 and found.max() < 0.335
    # Uniform between 0.02 and 1/3; only the longest windows are cut off, to the length of the image.
    assert found.mean() == pytest.approx((0.02 + 1 / 3) / 2, abs=0.003)
    ratios = (boxes[:, 1] - boxes[:, 0]) / (boxes[:, 3] - boxes[:, 2])
    # Longer ones only where the image's side cuts nothing off.
    assert ratios.min() > 0.29 and ratios.max() < 3.4
    assert abs(np.log(ratios).mean()) < 0.03
    assert boxes.min() == 0 and boxes.max() == 1000


@pytest.mark.parametrize("other", [{"seed": 1, "epoch": 0}, {"seed": 0, "epoch": 1}])
def test_draws_belong_to_the_example_the_seed_and_the_epoch(other: dict[str, int]) -> None:
    rows = torch.tensor([93, 7])
    whole, some = (draw_mixing(index, 0.5, 32, 32, seed=0, epoch=0) for index in (MANY[:100], rows))
    for one, part in zip(whole, some, strict=True):
        np.testing.assert_array_equal(np.asarray(part), np.asarray(one)[rows.numpy()])
    erased = draw_erasing(MANY[:100], 0.5, 32, 32, seed=0, epoch=0)
    np.testing.assert_array_equal(draw_erasing(rows, 0.5, 32, 32, seed=0, epoch=0), erased[rows.numpy()])
    assert (draw_mixing(MANY[:100], 0.5, 32, 32, **other).boxes != whole.boxes).any()
    assert (draw_erasing(MANY[:100], 0.5, 32, 32, **other) != erased).any()


def test_windows_are_pasted_and_blackened() -> None:
    images, others = np.full((2, 1, 3, 4), 5, np.uint8), np.full((2, 1, 3, 4), 9, np.uint8)
    boxes = np.array([[0, 2, 1, 3], [0, 0, 0, 0]])
    paste(images, others, boxes)
    assert images[0, 0].tolist() == [[5, 9, 9, 5], [5, 9, 9, 5], [5, 5, 5, 5]]
    assert (images[1] == 5).all()
    erase(images, boxes)
    assert images[0, 0].tolist() == [[5, 0, 0, 5], [5, 0, 0, 5], [5, 5, 5, 5]]


def test_a_batch_shows_each_label_as_much_as_it_should() -> None:
    """Every image is of its label's gray level, so levels tell what was pasted and whose label was taken."""
    labels = torch.arange(40)
    images = (100 + labels).to(torch.uint8)[:, None, None, None].expand(-1, 1, 16, 16).contiguous()
    data, varied = Split(images, labels, labels), Augmentation(cutmix=1.0)
    seen = 0
    for epoch in range(3):
        for x, y, index in training_batches(data, batch_size=8, seed=0, epoch=epoch, augmentation=varied):
            levels = x.long() - 100
            mixing = draw_mixing(index, 1.0, 16, 16, seed=0, epoch=epoch)
            for level, label, own, box, takes in zip(
                levels, y, index, mixing.boxes, mixing.takes_label, strict=True
            ):
                other = int(40 * mixing.partners[(index == own).numpy()][0])
                inside = torch.zeros(16, 16, dtype=torch.bool)
                inside[box[0] : box[1], box[2] : box[3]] = True
                assert bool((level[0][inside] == other).all()) and bool((level[0][~inside] == own).all())
                assert label == (other if takes else own)
                seen += int(takes)
    assert seen > 10


def test_erasing_comes_after_everything_else() -> None:
    images = torch.full((8, 1, 16, 16), 200, dtype=torch.uint8)
    data = Split(images, torch.zeros(8, dtype=torch.int64), torch.arange(8))
    varied = Augmentation(crop_padding=2, padding_mode="reflect", flip=True, cutmix=1.0, erasing=1.0)
    (batch,) = training_batches(data, batch_size=8, seed=0, epoch=0, augmentation=varied)
    boxes = draw_erasing(batch.index, 1.0, 16, 16, seed=0, epoch=0)
    expected = images.numpy().copy()
    erase(expected, boxes)
    torch.testing.assert_close(batch.x, torch.from_numpy(expected))


@pytest.mark.parametrize("name", ["cutmix", "erasing"])
def test_a_probability_beyond_one_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=rf"augmentation\.{name}: got 1.5, expected 0 to 1"):
        Augmentation(**{name: 1.5})  # type: ignore[arg-type]
