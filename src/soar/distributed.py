"""Several processes as one: the world that `torchrun` started, and a few collectives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from soar.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """The processes that work together, and which of them this one is.

    Args:
        rank: the number of this process, from 0
        size: the number of processes
        local_rank: this process among those on the same machine
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """Return the device of this process: its own GPU when the name is "cuda" without a number."""
        device = torch.device(name)
        if device.type == "cuda" and device.index is None:
            return torch.device("cuda", self.local_rank)
        return device

    def shard(self, n: int) -> slice:
        """Return the contiguous part of n examples for this process; parts differ by one at most.

        >>> [World(rank, 3).shard(8) for rank in range(3)]
        [slice(0, 3, None), slice(3, 6, None), slice(6, 8, None)]
        """
        share, rest = divmod(n, self.size)
        begin = self.rank * share + min(self.rank, rest)
        return slice(begin, begin + share + (self.rank < rest))

    def gather(self, value: Any) -> list[Any]:
        """Collect a picklable value from every process, in the order of ranks, on every process."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def from_main(self, value: T) -> T:
        """Return the value of rank 0 in every process."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]

    def on_main(self, work: Callable[[], T]) -> T:
        """Run a function in rank 0 and return its result, or raise its `UserError`, in every process.

        Raises:
            UserError: in every process, so that none is left waiting for the others
        """
        outcome: T | UserError | None = None
        if self.is_main:
            try:
                outcome = work()
            except UserError as error:
                outcome = error
        outcome = self.from_main(outcome)
        if isinstance(outcome, UserError):
            raise outcome
        return cast(T, outcome)

    def mean(self, values: Tensor) -> Tensor:
        """Average over the processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
            values /= self.size
        return values

    def copy_from_main(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of rank 0."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)


def current() -> World:
    """Return the world of the process group or, before it exists, of the variables that torchrun sets."""
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size(), local_rank)
    return World(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)), local_rank)


@contextmanager
def joined(device: str) -> Iterator[World]:
    """Join the processes that torchrun started, and leave them at the end.

    Inside another `joined`, or in a program that made its own process group, nothing is opened or closed.

    Args:
        device: "cuda" communicates over NCCL, anything else over gloo
    """
    world = current()
    if world.size == 1 or dist.is_initialized():
        yield world
        return
    kind = torch.device(device).type
    if kind not in ("cpu", "cuda"):
        raise UserError(
            f"--device: got {kind} for {world.size} processes, expected cpu or cuda, between which they can"
            " exchange numbers"
        )
    if kind == "cuda":
        own = world.device(device)
        torch.cuda.set_device(own)
        # NCCL then knows the GPU from the start, and does not guess it at the first barrier.
        dist.init_process_group("nccl", device_id=own)
    else:
        dist.init_process_group("gloo")
    try:
        yield world
        dist.barrier()
    finally:
        dist.destroy_process_group()


def local_batch(batch_size: int, accumulation_steps: int, world: World) -> int:
    """Return the number of examples in one micro-batch of one process.

    Raises:
        UserError: when the batch cannot be divided evenly

    >>> local_batch(128, 2, World(0, 4))
    16
    """
    parts = world.size * accumulation_steps
    if batch_size % parts:
        raise UserError(
            f"training.batch_size: got {batch_size}, expected a multiple of {parts} "
            f"({world.size} processes x {accumulation_steps} micro-batches of training.accumulation_steps)"
        )
    return batch_size // parts
