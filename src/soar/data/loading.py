"""Load a dataset by name and hold a validation set out of its training files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from soar import randomness
from soar.data import catalog
from soar.data.dataset import Dataset, Split
from soar.data.decoding import Framing
from soar.errors import UserError

LARGEST_VALIDATION = 5000


def load(
    name: str,
    *,
    root: Path | None = None,
    validation: int | None = None,
    seed: int = 0,
    resize: int | None = None,
    crop: int | None = None,
) -> Dataset:
    """Load a dataset: its labels, and its images where they take no more than 256 MiB.

    Larger ones stay in their files, and batches are read from there.

    Examples are in the order of the files, unless these list one class after the other: then they are mixed,
    always in the same way.

    Args:
        name: "fashion-mnist-sample" (in the package), "cifar10", "svhn", "fashion-mnist",
            "FILE.npz", "folder:DIR", "npy:DIR", "webdataset:DIR", "datasets:DIR", or
            "package.module:callable", a function that returns PyTorch datasets
        root: the folder with the datasets that were fetched; else the environment variable
            SOAR_DATA, else the user's cache
        validation: how many training examples to hold out; a tenth, at most 5,000, when None
        seed: determines which ones
        resize: scale images in files so that their shorter sides have this length
        crop: then cut a square with this side out of the middle

    Raises:
        UserError: no such dataset, a malformed file, or an impossible `validation`

    >>> data = load("fashion-mnist-sample")
    >>> len(data.train), len(data.validation), len(data.test), data.shape
    (9000, 1000, 2000, (1, 28, 28))
    """
    framing = None if resize is None and crop is None else Framing(resize, crop)
    found = catalog.read(name, root, framing)
    train = _mixed(found.train)
    if validation is None:
        validation = min(len(train) // 10, LARGEST_VALIDATION)
    learn, held_out = hold_out(train.labels, validation, seed=seed)
    return replace(
        found,
        name=name,
        train=train.subset(learn) if validation else train,
        validation=train.subset(held_out),
        test=_mixed(found.test),
    )


def hold_out(labels: Tensor, count: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Split examples in two parts, stratified by class.

    The parts are disjoint and complete, each in ascending order. With the same seed, a smaller
    `count` holds out a subset of what a larger one does, up to the rounding of class shares.

    Args:
        labels: the class of every example
        count: how many examples to hold out
        seed: determines which ones

    Returns:
        The rows that stay, and the rows that are held out.

    Raises:
        UserError: `count` is negative, or leaves nothing to learn from
    """
    if count < 0 or (count > 0 and count >= len(labels)):
        raise UserError(
            f"data.validation: got {count}, allowed are 0 to {max(len(labels) - 1, 0)} for "
            f"{len(labels)} training examples (flag --data.validation)"
        )
    is_held_out = torch.zeros(len(labels), dtype=torch.bool)
    order = randomness.permutation(randomness.key(seed, 0, "validation"), len(labels))[0]
    for label, share in enumerate(_shares(torch.bincount(labels), count).tolist()):
        is_held_out[order[labels[order] == label][:share]] = True
    return (~is_held_out).nonzero()[:, 0], is_held_out.nonzero()[:, 0]


def _shares(sizes: Tensor, count: int) -> Tensor:
    """Divide `count` in proportion to `sizes`, exactly: the largest remainders are rounded up.

    >>> _shares(torch.tensor([50, 30, 20]), 5)
    tensor([3, 1, 1])
    """
    total = max(int(sizes.sum()), 1)
    shares = sizes * count // total
    rests = sizes * count % total
    left = count - int(shares.sum())
    shares[rests.argsort(descending=True, stable=True)[:left]] += 1
    return shares


def _mixed(split: Split) -> Split:
    """Return examples in a mixed order where the files list one class after the other, as folders do.

    When a model is validated or attacked, the first examples are taken to represent all.
    """
    steps = split.labels.diff()
    if bool((steps < 0).any()) or not bool((steps > 0).any()):
        return split
    return split.subset(randomness.permutation(randomness.key(0, 0, "mixed classes"), len(split))[0])
