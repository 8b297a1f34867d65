"""What the networks share: input normalization, norms, initialization, and the checks of their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from soar import values
from soar.errors import UserError, shown, unknown

Norm = Literal["none", "batch", "group"]
Activation = Literal["relu", "silu", "gelu", "softplus"]

# The second derivatives of all but ReLU are not zero.
_ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "softplus": nn.Softplus,
}


def require(holds: bool, field: str, got: Any, expected: str) -> None:
    """Check an option of a model.

    >>> require(False, "width", 0, "at least 1")
    Traceback (most recent call last):
    soar.errors.UserError: model.width: got 0, expected at least 1 (flag --model.width)
    """
    if not holds:
        raise UserError(f"model.{field}: got {shown(got)}, expected {expected} (flag --model.{field})")


def check_task(num_classes: int, image_shape: tuple[int, int, int]) -> None:
    """Check the number of classes and the image shape."""
    values.whole(num_classes, "num_classes", least=2, flag=" (set by the data)")
    is_listed = isinstance(image_shape, tuple | list) and len(image_shape) == 3
    if not is_listed or not all(type(size) is int and 0 < size < 2**31 for size in image_shape):
        raise UserError(
            f"image_shape: got {shown(image_shape)}, expected (channels, height, width), "
            "each at least 1 (set by the data)"
        )


@dataclass(frozen=True)
class Layers:
    """Makes the convolutions, norms and activations of one network.

    Args:
        norm: what follows a convolution; "none" leaves it out
        conv_bias: whether convolutions have biases
        groups: the groups of each group norm; the other norms ignore it
        activation: what makes the network nonlinear

    Raises:
        UserError: when there is no such norm, no group or no such activation
    """

    norm: Norm
    conv_bias: bool
    groups: int
    activation: Activation

    def __post_init__(self) -> None:
        if self.norm not in get_args(Norm):
            raise unknown("norm", self.norm, get_args(Norm), "model.norm")
        require(self.groups >= 1, "groups", self.groups, "at least 1")
        if self.activation not in get_args(Activation):
            raise unknown("activation", self.activation, get_args(Activation), "model.activation")

    def conv(
        self, inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, padding: int = 1
    ) -> nn.Conv2d:
        """Return a square convolution."""
        return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=self.conv_bias)

    def normalize(self, channels: int) -> nn.Module:
        """Return the norm of a feature map; the identity when there is none."""
        if self.norm == "batch":
            return nn.BatchNorm2d(channels)
        if self.norm == "group":
            divides = channels % self.groups == 0
            require(divides, "groups", self.groups, f"a divisor of the {channels} channels")
            return nn.GroupNorm(self.groups, channels)
        return nn.Identity()

    def activate(self) -> nn.Module:
        """Return the activation."""
        return _ACTIVATIONS[self.activation]()


def silence_branch(conv: nn.Conv2d, norm: nn.Module | None = None) -> None:
    """Zero the last scale of a residual branch, so that its block starts as its shortcut.

    Source: Goyal et al., "Accurate, Large Minibatch SGD", section 5.1; Zhang et al., "Fixup
    Initialization", for networks without norms.

    Args:
        conv: the last convolution of the branch
        norm: the norm behind it, whose scale is zeroed instead where it has one
    """
    if isinstance(norm, nn.BatchNorm2d | nn.GroupNorm):
        nn.init.zeros_(norm.weight)
        return
    nn.init.zeros_(conv.weight)
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)


def keep_signal_size(*parts: nn.Module) -> None:
    """Initialize convolutions and linear layers so that activations keep their scale behind a ReLU.

    Weights are normal with variance 2 / (inputs x kernel area), biases zero.
    Source: He et al., "Delving Deep into Rectifiers".

    Args:
        parts: layers and stacks of layers that a ReLU follows
    """
    for module in (module for part in parts for module in part.modules()):
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of each channel of a dataset, in [0, 1] pixels."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


STATISTICS = {
    "cifar10": Statistics((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "svhn": Statistics((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    "fashion-mnist": Statistics((0.2860,), (0.3530,)),
}


def normalization_layer(choice: str | Statistics, channels: int) -> nn.Module:
    """Return the first layer of a model.

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
    r"""Standardize each image to mean 0 and standard deviation 1 over all its values.

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
        statistics: one mean and one positive standard deviation per channel
        channels: the channels of an image

    Raises:
        UserError: when the statistics do not fit
    """

    mean: Tensor
    std: Tensor

    def __init__(self, statistics: Statistics, channels: int) -> None:
        super().__init__()
        for name, numbers in (("mean", statistics.mean), ("std", statistics.std)):
            field = f"input_normalization.{name}"
            require(len(numbers) == channels, field, numbers, f"{channels} numbers, one per channel")
            self.register_buffer(name, torch.tensor(numbers).view(1, -1, 1, 1))
        positive = min(statistics.std) > 0
        require(positive, "input_normalization.std", statistics.std, "positive numbers")

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized images."""
        return (x - self.mean) / self.std
