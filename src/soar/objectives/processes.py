"""What the processes of a data-parallel training tell each other inside an objective."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def mean_over_processes(values: Tensor) -> Tensor:
    """Average a tensor over all processes; alone, give it as it is."""
    if _alone():
        return values
    values = values.contiguous().clone()
    dist.all_reduce(values)
    return values / dist.get_world_size()


def of_all_processes(rows: Tensor) -> Tensor:
    """Join the rows of all processes, which may have different numbers of them; on the CPU."""
    if _alone():
        return rows.cpu()
    parts: list[Tensor] = [rows] * dist.get_world_size()
    dist.all_gather_object(parts, rows.cpu())
    return torch.cat(parts)


def _alone() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1
