"""The choices that every network shares: which norm, convolutions with or without bias, and the checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import nn

from soar import values
from soar.errors import UserError, shown, unknown

Norm = Literal["none", "batch", "group"]
Activation = Literal["relu", "softplus"]


def require(holds: bool, field: str, got: Any, expected: str) -> None:
    """Refuse an option of a model in one line.

    >>> require(False, "width", 0, "at least 1")
    Traceback (most recent call last):
    soar.errors.UserError: model.width: got 0, expected at least 1 (flag --model.width)
    """
    if not holds:
        raise UserError(f"model.{field}: got {shown(got)}, expected {expected} (flag --model.{field})")


def activation_layer(name: Activation) -> nn.Module:
    """Make what stands between two layers; softplus is curved everywhere, as second derivatives like it.

    Raises:
        UserError: when there is no such activation
    """
    known: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "softplus": nn.Softplus}
    if name not in known:
        raise unknown("activation", name, known, "model.activation")
    return known[name]()


def check_task(num_classes: int, image_shape: tuple[int, int, int]) -> None:
    """Refuse a number of classes or an image shape that no classifier can have."""
    values.whole(num_classes, "num_classes", least=2, flag=" (set by the data)")
    is_listed = isinstance(image_shape, tuple | list) and len(image_shape) == 3
    if not is_listed or not all(type(size) is int and 0 < size < 2**31 for size in image_shape):
        raise UserError(
            f"image_shape: got {shown(image_shape)}, expected (channels, height, width), "
            "each at least 1 (set by the data)"
        )


@dataclass(frozen=True)
class Layers:
    """Makes the convolutions and norms of one network.

    Args:
        norm: what follows a convolution; "none" leaves it out
        conv_bias: whether convolutions have biases
        groups: the groups of each group norm; the other norms ignore it

    Raises:
        UserError: when there is no such norm or no group
    """

    norm: Norm
    conv_bias: bool
    groups: int

    def __post_init__(self) -> None:
        if self.norm not in get_args(Norm):
            raise unknown("norm", self.norm, get_args(Norm), "model.norm")
        require(self.groups >= 1, "groups", self.groups, "at least 1")

    def conv(
        self, inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, padding: int = 1
    ) -> nn.Conv2d:
        """Make a square convolution."""
        return nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=self.conv_bias)

    def normalize(self, channels: int) -> nn.Module:
        """Make the norm of a feature map; the identity when there is none."""
        if self.norm == "batch":
            return nn.BatchNorm2d(channels)
        if self.norm == "group":
            divides = channels % self.groups == 0
            require(divides, "groups", self.groups, f"a divisor of the {channels} channels")
            return nn.GroupNorm(self.groups, channels)
        return nn.Identity()


def silence_branch(conv: nn.Conv2d, norm: nn.Module | None = None) -> None:
    """Zero the last scale of a residual branch, so that its block begins as its shortcut.

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
    """Draw convolutions and linear layers so that signals keep their size through them and a ReLU.

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
