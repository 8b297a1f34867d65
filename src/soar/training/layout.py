"""How images and filters lie in memory."""

from __future__ import annotations

import torch
from torch import nn

# Fewer channels than a vector register holds make the kernel write past its buffer.
_LEAST_CHANNELS = 8


def memory_layout(model: nn.Module, device: torch.device, *, channels_last: bool) -> torch.memory_format:
    """Choose channels_last where it is wanted and safe.

    PyTorch's CPU kernel for the weight gradient of a 1x1 convolution with a stride overwrites memory that is
    not its own when images are channels_last and have fewer than 8 channels (seen with 2.13): processes
    crash or, worse, go on. Models with such a layer stay in the ordinary layout.

    Args:
        model: the model to train
        device: where it is trained
        channels_last: whether the fast layout is wanted

    >>> narrow = nn.Conv2d(4, 8, 1, stride=2)
    >>> memory_layout(narrow, torch.device("cpu"), channels_last=True)
    torch.contiguous_format
    """
    if channels_last and not (device.type == "cpu" and any(map(_is_unsafe, model.modules()))):
        return torch.channels_last
    return torch.contiguous_format


def _is_unsafe(module: nn.Module) -> bool:
    if not isinstance(module, nn.Conv2d):
        return False
    is_pointwise = module.kernel_size == (1, 1) and max(module.stride) > 1
    return is_pointwise and module.in_channels // module.groups < _LEAST_CHANNELS
