"""Input normalization as the first layer of a model, so that attacks see plain [0, 1] pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from soar.errors import unknown
from soar.models.layers import require


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of each channel of a data set, in [0, 1] pixels."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


STATISTICS = {
    "cifar10": Statistics((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "svhn": Statistics((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "fashion-mnist": Statistics((0.2860,), (0.3530,)),
}


def normalization_layer(choice: str | Statistics, channels: int) -> nn.Module:
    """Make the first layer of a model.

    Args:
        choice: "none", "per-image", the name of known statistics, or statistics
        channels: the channels of an image

    Raises:
        UserError: for an unknown name, or statistics that do not fit the channels
    """
    if choice == "none":
        return nn.Identity()
    if choice == "per-image":
        return PerImageStandardization()
    if isinstance(choice, str):
        if choice not in STATISTICS:
            names = ["none", "per-image", *STATISTICS]
            raise unknown("input normalization", choice, names, "model.input_normalization")
        choice = STATISTICS[choice]
    return FixedNormalization(choice, channels)


def standardize(x: Tensor) -> Tensor:
    r"""Return every image mean 0 and standard deviation 1 over all its values.

    .. math:: (x - \bar x) / \max(\mathrm{std}(x), 1/\sqrt d)

    with the unbiased deviation over the :math:`d` values of an image. The maximum is taken of the
    variances, so that derivatives of all orders are finite at a constant image too.

    Args:
        x: images, NCHW

    Returns:
        The standardized images, in the shape of `x`.

    >>> standardize(torch.tensor([[[[0.0, 0.5, 1.0]]]]))
    tensor([[[[-0.8660,  0.0000,  0.8660]]]])
    """
    size = x[0].numel()
    centered = x - x.mean(dim=(1, 2, 3), keepdim=True)
    variance = centered.square().sum(dim=(1, 2, 3), keepdim=True) / max(size - 1, 1)
    return centered / variance.clamp_min(1 / size).sqrt()


class PerImageStandardization(nn.Module):
    """Standardize each image by its own mean and deviation; see `standardize`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the standardized images."""
        return standardize(x)


class FixedNormalization(nn.Module):
    """Subtract the mean of each channel and divide by its standard deviation.

    The statistics are buffers: they travel with the weights.

    Args:
        statistics: one mean and one positive deviation a channel
        channels: the channels of an image

    Raises:
        UserError: when the statistics do not fit
    """

    mean: Tensor
    std: Tensor

    def __init__(self, statistics: Statistics, channels: int) -> None:
        super().__init__()
        for name, values in (("mean", statistics.mean), ("std", statistics.std)):
            field = f"input_normalization.{name}"
            require(len(values) == channels, field, values, f"{channels} numbers, one a channel")
            self.register_buffer(name, torch.tensor(values).view(1, -1, 1, 1))
        positive = min(statistics.std) > 0
        require(positive, "input_normalization.std", statistics.std, "positive numbers")

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized images."""
        return (x - self.mean) / self.std
