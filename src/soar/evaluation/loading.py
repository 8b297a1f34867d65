"""Whether a data loader gives the same examples at every call, and random numbers that make it so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, zip_longest
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from soar.errors import UserError

_SEED = 0
# A random order of two or three examples may well be the same twice.
_DRAWS = 4
# A sampler may repeat examples, but one that goes on for longer than this never ends.
_REPEATS, _AT_LEAST = 10, 1000


@contextmanager
def fixed_generators(own: torch.Generator | None = None, *, seed: int = _SEED) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and PyTorch, and put them back afterwards.

    Args:
        own: a generator of the loader's own, treated in the same way
        seed: what to seed them with
    """
    # Before CUDA is in use, seeding it would only be noted, and done when it is: a trace.
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    python, numpy = random.getstate(), np.random.get_state()
    kept = None if own is None else own.get_state()
    try:
        with torch.random.fork_rng(devices=list(devices)):
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed_all(seed)
            random.seed(seed)
            np.random.seed(seed)
            if own is not None:
                own.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if own is not None and kept is not None:
            own.set_state(kept)


def check_order(loader: DataLoader[Any]) -> None:
    """Refuse a loader whose order of examples depends on a random generator; no example is loaded.

    Args:
        loader: anyone's; that of an iterable data set has no order to look at

    Raises:
        UserError: if it shuffles, or its sampler never ends
    """
    if isinstance(loader.dataset, IterableDataset):
        return
    if isinstance(loader.sampler, RandomSampler):
        raise UserError(
            "data: got a loader that shuffles, expected shuffle=False;"
            " the random numbers of an example go by its place"
        )
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    inner = sampler.sampler if type(sampler) is BatchSampler else sampler
    if type(inner) is SequentialSampler:
        return
    name = type(inner).__name__
    most = _REPEATS * len(loader.dataset) + _AT_LEAST  # type: ignore[arg-type]
    with fixed_generators():
        first = list(islice(iter(sampler), most))
    if len(first) == most:
        raise UserError(
            f"data: got a loader whose {name} goes on after {most:,} draws, expected one that ends"
        )
    for seed in range(1, _DRAWS):
        with fixed_generators(seed=seed):
            if any(one != other for one, other in zip_longest(first, islice(iter(sampler), most))):
                raise UserError(
                    f"data: got a loader whose {name} draws another order each time, expected the same order"
                    " at every call; the random numbers of an example go by its place"
                )
