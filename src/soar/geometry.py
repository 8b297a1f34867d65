"""Where the balls of l2 and l1 meet the pixel range: what their projections and steps solve.

All tensors are flat: one row per example.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The largest scale is found by rounds that only add clipped pixels. Real images converge in fewer than ten;
# whoever uses the scale rescales once more, which keeps all others inside.
_ROUNDS = 20


def largest_scale(size: Tensor, room: Tensor, radius: Tensor | float) -> Tensor:
    """Solve sum_i min(s size_i, room_i)^2 = radius^2 for s <= 1, from below, one s per example."""
    tiny = torch.finfo(size.dtype).tiny
    scale: Tensor = (radius / torch.linalg.vector_norm(size, dim=1).clamp(min=tiny)).clamp(max=1)
    # Pixel i is clipped from this scale on. Comparisons that write numbers are many times faster on a CPU.
    until, flags = room / size.clamp(min=tiny), torch.empty_like(size)
    spent_if, free_if = room.square(), size.square()
    for _ in range(_ROUNDS):
        spent = torch.linalg.vecdot(spent_if, torch.le(until, scale[:, None], out=flags))
        free = torch.linalg.vecdot(free_if, torch.gt(until, scale[:, None], out=flags))
        left = (radius * radius - spent).clamp(min=0)
        better = torch.where(free > 0, (left / free.clamp(min=tiny)).sqrt(), 1).clamp(max=1)
        # Rounds after the last one that helps change nothing, and asking would wait for another device.
        if size.device.type == "cpu" and not bool((better > scale).any()):
            break
        scale = torch.maximum(scale, better)
    return scale


def threshold(size: Tensor, room: Tensor, radius: Tensor | float) -> Tensor:
    r"""Solve \sum_i min(max(size_i - t, 0), room_i) = radius for t >= 0; 0 where less than that is held.

    With falling t, pixel i takes part from t = size_i on and is full from t = size_i - room_i on. Between
    these breaks the sum is linear, so sorting them and adding up what is held at each leads to the two that
    enclose the solution.

    Args:
        size: at least 0
        room: at least 0
        radius: above 0, one per example or the same for all

    >>> threshold(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1.0, 5.0, 5.0]]), 2.0)
    tensor([1.])
    """
    pixels = size.shape[1]
    breaks, which = torch.cat([size, (size - room).clamp(min=0)], dim=1).sort(dim=1, descending=True)
    free = torch.where(which < pixels, 1.0, -1.0).to(size.dtype).cumsum(dim=1)
    following = torch.cat([breaks[:, 1:], torch.zeros_like(breaks[:, :1])], dim=1)
    held = ((breaks - following) * free).cumsum(dim=1)
    limit = torch.as_tensor(radius, dtype=size.dtype, device=size.device).expand(len(size))[:, None]
    at = torch.searchsorted(held, limit.contiguous()).clamp(max=2 * pixels - 1)
    too_much = held.gather(1, at) - limit
    found = following.gather(1, at) + (too_much / free.gather(1, at).clamp(min=1)).clamp(min=0)
    return found[:, 0]


def fill(worth: Tensor, capacity: Tensor, budget: Tensor | float) -> Tensor:
    """Spend a budget on what is worth most, each up to its capacity, and return what each gets.

    That maximizes sum_i worth_i spent_i (the fractional knapsack of Dantzig, 1957).

    Args:
        worth: of a unit; of equals the first comes first
        capacity: at least 0
        budget: at least 0, one per example or the same for all

    >>> fill(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([[1.0, 0.5, 0.5]]), 1.25)
    tensor([[0.2500, 0.5000, 0.5000]])
    """
    order = worth.argsort(dim=1, descending=True, stable=True)
    most = capacity.gather(1, order)
    if isinstance(budget, Tensor):
        budget = budget[:, None]
    before = torch.cat([torch.zeros_like(most[:, :1]), most[:, :-1].cumsum(dim=1)], dim=1)
    spent = torch.minimum((budget - before).clamp(min=0), most)
    return torch.zeros_like(capacity).scatter(1, order, spent)


def sparse(worth: Tensor, count: Tensor | float, length: Tensor | float) -> Tensor:
    """Share a length equally among the entries that are worth most, and give nothing to the others.

    Args:
        worth: at least 0; what is worth nothing gets nothing
        count: how many get a share, rounded up and at least 1, one per row or the same for all; of equal ones
            all do
        length: to share, one per row or the same for all

    >>> sparse(torch.tensor([[1.0, 3.0, 2.0]]), 1.2, 4.0)
    tensor([[0., 2., 2.]])
    """
    counts = torch.as_tensor(count, device=worth.device).ceil().clamp(1, worth.shape[1]).long()
    most = int(counts.max()) if len(worth) else 1
    last = (counts - 1).expand(len(worth))[:, None]
    least = worth.topk(most, dim=1).values.gather(1, last)
    chosen = ((worth >= least) & (worth > 0)).to(worth.dtype)
    share = torch.as_tensor(length, dtype=worth.dtype, device=worth.device) / chosen.sum(dim=1).clamp(min=1)
    return chosen * share[:, None]
