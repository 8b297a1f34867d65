"""The batches of an epoch: a shuffled order and augmented images, prepared ahead of their use.

Augmentation is a pure function of (seed, epoch, example), and so is which examples of a second source are
mixed into a batch of (seed, epoch, batch).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from soar import randomness
from soar.data.dataset import Split
from soar.data.patches import draw_erasing, draw_mixing, erase, paste
from soar.data.sources import Extra, Pool, extra_rows, interleaved
from soar.data.stored import Pixels
from soar.errors import UserError

_AHEAD_PER_WORKER = 2


@dataclass(frozen=True)
class Augmentation:
    """How training images are augmented; the default leaves them as they are.

    Args:
        crop_padding: pixels added on every side before a window of the original size is cut out at random
        padding_mode: how they are filled: with black ("zero") or with the reflected image ("reflect")
        flip: whether images are flipped left to right with probability 1/2
        cutmix: the probability that an image gets a window of another one and, by area, perhaps its label
        erasing: the probability that a window of an image is blackened
    """

    crop_padding: int = 0
    padding_mode: Literal["zero", "reflect"] = "zero"
    flip: bool = False
    cutmix: float = 0.0
    erasing: float = 0.0

    def __post_init__(self) -> None:
        if self.crop_padding < 0:
            raise UserError(f"augmentation.crop_padding: got {self.crop_padding}, expected at least 0")
        if self.padding_mode not in ("zero", "reflect"):
            raise UserError(f"augmentation.padding_mode: got '{self.padding_mode}', expected zero or reflect")
        for name in ("cutmix", "erasing"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"augmentation.{name}: got {getattr(self, name)}, expected 0 to 1")


class Batch(NamedTuple):
    """Images as bytes, their labels, and their positions in the source file."""

    x: Tensor
    y: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index

    def on(
        self,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> Batch:
        """Return the batch on a device, with images as numbers in [0, 1].

        They travel as bytes, a quarter of the size, and without waiting where they are in pinned memory.

        >>> Batch(torch.tensor([[[[51]]]], dtype=torch.uint8), torch.tensor([3]), torch.tensor([7])).on().x
        tensor([[[[0.2000]]]])
        """
        x, y, index = (part.to(device, non_blocking=True) for part in self)
        if x.dtype == torch.uint8:
            return Batch(x.to(dtype, memory_format=memory_format).div_(255), y, index)
        return Batch(x.to(dtype, memory_format=memory_format), y, index)


def batches_per_epoch(split: Split, batch_size: int, extra: Extra | None = None) -> int:
    """Count the batches of an epoch; an incomplete last one is left out.

    Args:
        split: the examples
        batch_size: the size of a batch over all processes together
        extra: the second source; an epoch counts the first

    Raises:
        UserError: the size is not between 1 and the number of examples
    """
    if not 1 <= batch_size <= len(split):
        raise UserError(
            f"training.batch_size: got {batch_size}, allowed are 1 to {len(split)}, "
            "the number of training examples (flag --training.batch_size)"
        )
    own = batch_size - (extra.count(batch_size) if extra else 0)
    return len(split) // own


def training_batches(
    split: Split,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    augmentation: Augmentation,
    extra: Extra | None = None,
    start: int = 0,
    rank: int = 0,
    world_size: int = 1,
    num_workers: int = 1,
    pinned: bool = False,
) -> Iterator[Batch]:
    """Return the batches of one epoch in an order that is a function of (seed, epoch).

    A batch has the same contents whatever the number of threads, wherever the epoch was resumed and
    over how many processes it is divided. At most two batches for each thread are prepared ahead. Images that
    are not in memory are read and decoded in these threads: Pillow decodes without holding Python's lock.

    Args:
        split: the examples
        batch_size: the size of a batch over all processes together
        seed: the seed of the run
        epoch: the number of the epoch
        augmentation: how images are augmented
        extra: a second source, of which every batch has a fixed share
        start: the number of the first batch; earlier ones are not computed
        rank: which process this is; it gets the rank-th part of every batch
        world_size: how many processes there are
        num_workers: threads that prepare batches ahead; 0 prepares each on demand
        pinned: whether batches are put where a GPU can fetch them without waiting

    Raises:
        UserError: a batch size that does not fit the examples or the processes
    """
    count = batches_per_epoch(split, batch_size, extra)
    if batch_size % world_size:
        raise UserError(
            f"training.batch_size: got {batch_size}, allowed are multiples of {world_size}, the "
            "number of processes (flag --training.batch_size)"
        )
    order = randomness.permutation(randomness.key(seed, 0, "order", epoch), len(split))[0]
    whole = order[: count * (batch_size - (extra.count(batch_size) if extra else 0))].view(count, -1)
    pool = Pool([split])
    if extra is not None:
        whole = interleaved(whole, len(split) + extra_rows(extra, count, batch_size, seed=seed, epoch=epoch))
        pool = Pool([split, extra.split])
    rows = whole.reshape(count, world_size, -1)[start:, rank]
    prepare = _preparer(pool, rows, augmentation, seed=seed, epoch=epoch, pinned=pinned)
    return _ahead(prepare, len(rows), num_workers=num_workers)


def _preparer(
    pool: Pool, rows: Tensor, augmentation: Augmentation, *, seed: int, epoch: int, pinned: bool
) -> Callable[[int], Batch]:
    # The random numbers of an epoch are drawn at once: tiny draws for every batch cost far more.
    # Pixels are moved by numpy, because torch would start threads of its own inside each worker.
    at = {"seed": seed, "epoch": epoch}
    flat, size = rows.reshape(-1), rows.shape[1]
    indices, labels = pool.indices[flat], pool.labels[flat]
    height, width = pool.shape[1:]
    moves = draw_moves(augmentation, indices, **at)
    if augmentation.cutmix:
        mixing = draw_mixing(indices, augmentation.cutmix, height, width, **at)
        others = pool.partners(flat, mixing.partners)
        other_moves = draw_moves(augmentation, pool.indices[others], **at)
        labels = torch.where(torch.from_numpy(mixing.takes_label), pool.labels[others], labels)
    if augmentation.erasing:
        erased = draw_erasing(indices, augmentation.erasing, height, width, **at)

    def make(number: int) -> Batch:
        part = slice(number * size, (number + 1) * size)
        pixels = augment(pool.images(flat[part]), moves[part], augmentation)
        if augmentation.cutmix:
            other = augment(pool.images(others[part]), other_moves[part], augmentation)
            paste(pixels, other, mixing.boxes[part])
        if augmentation.erasing:
            erase(pixels, erased[part])
        batch = Batch(torch.from_numpy(pixels), labels[part], indices[part])
        return Batch(*(one.pin_memory() for one in batch)) if pinned else batch

    return make


def _ahead(make: Callable[[int], Batch], count: int, *, num_workers: int) -> Iterator[Batch]:
    """Call `make` for 0 ... `count` - 1 in threads, some ahead of use; yield results in order."""
    if num_workers == 0:
        yield from map(make, range(count))
        return
    with ThreadPoolExecutor(num_workers, thread_name_prefix="soar-batches") as pool:
        waiting: deque[Future[Batch]] = deque()
        try:
            for number in range(count):
                waiting.append(pool.submit(make, number))
                if len(waiting) > _AHEAD_PER_WORKER * num_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def draw_moves(augmentation: Augmentation, indices: Tensor, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Draw the window of each image in its padded version, and whether it is flipped.

    Args:
        augmentation: what may be drawn
        indices: the identities of the examples; the draw of an example does not depend on the others
        seed: the seed of the run
        epoch: the number of the epoch

    Returns:
        The top and the left of the window and 1 for a flip, shape (N, 3).
    """
    crops = randomness.key(seed, indices, "crop", epoch)
    places = randomness.integers(crops, 2 * augmentation.crop_padding + 1, (2,)).numpy()
    flips = randomness.integers(randomness.key(seed, indices, "flip", epoch), 2).numpy()
    return np.column_stack([places, flips * augmentation.flip])


def augment(images: Pixels, moves: NDArray[np.int64], augmentation: Augmentation) -> Pixels:
    """Crop, then flip, all images of a batch without a loop over them.

    Args:
        images: a batch that may be overwritten, shape (N, channels, height, width)
        moves: one row per image, as drawn
        augmentation: how to pad

    Raises:
        UserError: the image is too small to be padded by reflection
    """
    top, left, flipped = moves.T
    if augmentation.crop_padding:
        windows = sliding_window_view(_pad(images, augmentation), images.shape[2:], axis=(2, 3))
        images = windows[np.arange(len(images)), :, top, left]
    images[flipped == 1] = images[flipped == 1][..., ::-1]
    return images


def _pad(images: Pixels, augmentation: Augmentation) -> Pixels:
    height, width = images.shape[2:]
    extra = augmentation.crop_padding
    if augmentation.padding_mode == "reflect" and extra >= min(height, width):
        raise UserError(
            f"augmentation.crop_padding: got {extra}, allowed is less than {min(height, width)} for "
            f"images of {height} x {width} with augmentation.padding_mode = reflect"
        )
    sides = ((0, 0), (0, 0), (extra, extra), (extra, extra))
    return np.pad(images, sides, "reflect" if augmentation.padding_mode == "reflect" else "constant")
