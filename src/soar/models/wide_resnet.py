"""Wide residual networks: pre-activation blocks, few layers, many channels."""

from __future__ import annotations

import math

from torch import Tensor, nn

from soar.models.layers import (
    Activation,
    Layers,
    Norm,
    Statistics,
    check_task,
    normalization_layer,
    require,
    silence_branch,
)


class WideResNet(nn.Module):
    """Wide ResNet with batch norm, initialized as by TRADES: WRN-34-10, 46.2 M parameters.

    Stem, three stages of pre-activation blocks, average pooling, a linear layer: [0, 1] pixels to logits.
    Source: Zagoruyko and Komodakis, "Wide Residual Networks", without dropout.

    Args:
        num_classes: the number of logits
        image_shape: channels, height and width of an image
        depth: 6n + 4, for n blocks of two convolutions in each of three stages
        widen_factor: factor on the widths 16, 32 and 64 of the stages
        norm: what precedes each activation: none, batch or group
        groups: the groups of each group norm
        conv_bias: whether convolutions have biases
        activation: relu, silu, gelu or softplus
        input_normalization: none, per-image, the name of a dataset, or means and deviations
        zero_init_residual: initialize every block as the identity of its shortcut

    Raises:
        UserError: when depth is not 6n + 4, or an option is out of range
    """

    def __init__(
        self,
        num_classes: int = 10,
        image_shape: tuple[int, int, int] = (3, 32, 32),
        *,
        depth: int = 34,
        widen_factor: int = 10,
        norm: Norm = "batch",
        groups: int = 8,
        conv_bias: bool = False,
        activation: Activation = "relu",
        input_normalization: str | Statistics = "none",
        zero_init_residual: bool = False,
    ) -> None:
        super().__init__()
        layers = Layers(norm, conv_bias, groups, activation)
        check_task(num_classes, image_shape)
        require(depth >= 10 and depth % 6 == 4, "depth", depth, "6n + 4 such as 10, 28 or 34")
        require(widen_factor >= 1, "widen_factor", widen_factor, "at least 1")
        self.normalization = normalization_layer(input_normalization, image_shape[0])
        self.activate = layers.activate()
        self.stem = layers.conv(image_shape[0], 16)
        self.blocks = nn.Sequential()
        channels, blocks_per_stage = 16, (depth - 4) // 6
        for index in range(3 * blocks_per_stage):
            stage, position = divmod(index, blocks_per_stage)
            stride = 2 if stage > 0 and position == 0 else 1
            outputs = 16 * widen_factor * 2**stage
            self.blocks.append(
                PreActivationBlock(layers, channels, outputs, stride=stride, activate=self.activate)
            )
            channels = outputs
        self.norm = layers.normalize(channels)
        self.linear = nn.Linear(channels, num_classes)
        initialize(self)
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, PreActivationBlock):
                    silence_branch(module.conv2)

    def forward(self, x: Tensor) -> Tensor:
        """Map [0, 1] pixels to logits."""
        features = self.blocks(self.stem(self.normalization(x)))
        logits: Tensor = self.linear(self.activate(self.norm(features)).mean(dim=(2, 3)))
        return logits


class PreActivationBlock(nn.Module):
    """Norm, activation and 3x3 convolution, twice, beside a shortcut.

    A shortcut that changes the shape begins behind the first activation.

    Args:
        layers: what the block is made of
        inputs: channels that come in
        outputs: channels that go out
        stride: of the first convolution and of the shortcut
        activate: what follows each norm
    """

    def __init__(
        self,
        layers: Layers,
        inputs: int,
        outputs: int,
        *,
        stride: int,
        activate: nn.Module,
    ) -> None:
        super().__init__()
        self.activate = activate
        self.norm1 = layers.normalize(inputs)
        self.conv1 = layers.conv(inputs, outputs, stride=stride)
        self.norm2 = layers.normalize(outputs)
        self.conv2 = layers.conv(outputs, outputs)
        self.shortcut: nn.Conv2d | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = layers.conv(inputs, outputs, kernel=1, stride=stride, padding=0)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of branch and shortcut."""
        activated = self.activate(self.norm1(x))
        branch: Tensor = self.conv2(self.activate(self.norm2(self.conv1(activated))))
        return branch + (x if self.shortcut is None else self.shortcut(activated))


def initialize(network: nn.Module) -> None:
    """Draw each convolution from N(0, 2 / (k k outputs)) and zero every bias, as TRADES does."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = math.prod(module.kernel_size) * module.out_channels
            nn.init.normal_(module.weight, 0.0, math.sqrt(2 / fan_out))
        if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


wide_resnet = WideResNet
"""builds the network, under the name that recipes use"""
