"""The batches of an epoch: a shuffled order, varied images, prepared ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from soar import randomness
from soar.data.augmentation import Augmentation, augment, draw_moves
from soar.data.dataset import Split
from soar.errors import UserError

_AHEAD_PER_WORKER = 2


class Batch(NamedTuple):
    """Images as numbers in [0, 1], their labels, and their positions in the source file."""

    x: Tensor
    y: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs here


def batches_per_epoch(split: Split, batch_size: int) -> int:
    """Count the batches of an epoch; an incomplete last one is left out.

    Args:
        split: the examples
        batch_size: the size of a batch over all processes together

    Raises:
        UserError: the size is not between 1 and the number of examples
    """
    if not 1 <= batch_size <= len(split):
        raise UserError(
            f"training.batch_size: got {batch_size}, allowed are 1 to {len(split)}, "
            "the number of training examples (flag --training.batch_size)"
        )
    return len(split) // batch_size


def training_batches(
    split: Split,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    augmentation: Augmentation,
    start: int = 0,
    rank: int = 0,
    world_size: int = 1,
    workers: int = 1,
) -> Iterator[Batch]:
    """Return the batches of one epoch in an order that is a function of (seed, epoch).

    A batch has the same contents whatever the number of workers, wherever the epoch was resumed and
    over how many processes it is divided.

    Args:
        split: the examples
        batch_size: the size of a batch over all processes together
        seed: the seed of the run
        epoch: the number of the epoch
        augmentation: how images are varied
        start: the number of the first batch to give; earlier ones are not computed
        rank: which process this is; it gets the rank-th part of every batch
        world_size: how many processes there are
        workers: threads that prepare batches ahead; 0 prepares each when it is asked for

    Raises:
        UserError: a batch size that does not fit the examples or the processes
    """
    count = batches_per_epoch(split, batch_size)
    if batch_size % world_size:
        raise UserError(
            f"training.batch_size: got {batch_size}, allowed are multiples of {world_size}, the "
            "number of processes (flag --training.batch_size)"
        )
    order = randomness.permutation(randomness.key(seed, 0, "order", epoch), len(split))[0]
    rows = order[: count * batch_size].view(count, world_size, -1)[start:, rank]
    return _prepare(split, rows, augmentation, seed=seed, epoch=epoch, workers=workers)


def _prepare(
    split: Split, rows: Tensor, augmentation: Augmentation, *, seed: int, epoch: int, workers: int
) -> Iterator[Batch]:
    # The random numbers of an epoch are drawn at once: tiny draws for every batch cost far more.
    # Pixels are moved by numpy, because torch would start its own threads inside each worker.
    images, indices = split.images.numpy(), split.indices[rows]
    moves = draw_moves(augmentation, indices.reshape(-1), seed=seed, epoch=epoch)
    size = rows.shape[1]

    def make(number: int) -> Batch:
        chosen = rows[number]
        taken = moves[slice(number * size, (number + 1) * size)]
        pixels = augment(images[chosen.numpy()], taken, augmentation)
        x = np.divide(pixels, np.float32(255), dtype=np.float32)
        return Batch(torch.from_numpy(x), split.labels[chosen], indices[number])

    return _ahead(make, len(rows), workers=workers)


def _ahead(make: Callable[[int], Batch], count: int, *, workers: int) -> Iterator[Batch]:
    """Call `make` for 0 ... `count` - 1 in threads, some ahead of use; give results in order."""
    if workers == 0:
        yield from map(make, range(count))
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="soar-batches") as pool:
        waiting: deque[Future[Batch]] = deque()
        try:
            for number in range(count):
                waiting.append(pool.submit(make, number))
                if len(waiting) > _AHEAD_PER_WORKER * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
