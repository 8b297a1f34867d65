"""Residual networks for small images, with or without norms."""

from __future__ import annotations

from torch import Tensor, nn

from soar.models.layers import (
    Activation,
    Layers,
    Norm,
    Statistics,
    check_task,
    keep_signal_size,
    normalization_layer,
    require,
    silence_branch,
)


def resnet10(
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    *,
    width: int = 64,
    norm: Norm = "none",
    groups: int = 8,
    conv_bias: bool = False,
    activation: Activation = "relu",
    input_normalization: str | Statistics = "none",
    zero_init_residual: bool = False,
    he_init: bool = False,
) -> ResNet:
    """ResNet-10 without norms, the network of the SOAR paper: 4.9 M parameters.

    The options are those of `ResNet`.

    >>> sum(parameter.numel() for parameter in resnet10().parameters())
    4897482
    """
    return ResNet(blocks=1, **locals())


def resnet18(
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    *,
    width: int = 64,
    norm: Norm = "batch",
    groups: int = 8,
    conv_bias: bool = False,
    activation: Activation = "relu",
    input_normalization: str | Statistics = "none",
    zero_init_residual: bool = False,
    he_init: bool = False,
) -> ResNet:
    """ResNet-18 for small images with batch norm: 11.2 M parameters.

    The options are those of `ResNet`.
    """
    return ResNet(blocks=2, **locals())


class ResNet(nn.Module):
    """Stem, four stages of basic blocks, global average pooling, a linear layer: [0, 1] pixels to logits.

    Source: He et al., "Deep Residual Learning for Image Recognition"; for 32x32 images the stem is
    a 3x3 convolution with stride 1, and no pooling follows it.

    Args:
        num_classes: the number of logits
        image_shape: channels, height and width of an image
        blocks: blocks in each of the four stages
        width: channels of the first stage; each further stage has twice as many
        norm: what follows each convolution: none, batch or group
        groups: the groups of each group norm
        conv_bias: whether convolutions have biases
        activation: relu, silu, gelu or softplus
        input_normalization: none, per-image, the name of a dataset, or means and deviations
        zero_init_residual: initialize every block as the identity of its shortcut
        he_init: initialize convolutions so that activations keep their scale; PyTorch's default shrinks them
            from layer to layer, which a network without norms does not correct
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        blocks: int,
        width: int,
        norm: Norm,
        groups: int,
        conv_bias: bool,
        activation: Activation,
        input_normalization: str | Statistics,
        zero_init_residual: bool,
        he_init: bool,
    ) -> None:
        super().__init__()
        layers = Layers(norm, conv_bias, groups, activation)
        check_task(num_classes, image_shape)
        require(width >= 1, "width", width, "at least 1")
        self.normalization = normalization_layer(input_normalization, image_shape[0])
        self.stem = layers.conv(image_shape[0], width)
        self.stem_norm = layers.normalize(width)
        self.activate = layers.activate()
        self.blocks = nn.Sequential()
        channels = width
        for index in range(4 * blocks):
            stage, position = divmod(index, blocks)
            stride = 2 if stage > 0 and position == 0 else 1
            self.blocks.append(BasicBlock(layers, channels, width * 2**stage, stride=stride))
            channels = width * 2**stage
        self.linear = nn.Linear(channels, num_classes)
        if he_init:
            keep_signal_size(self.stem, self.blocks)
        if zero_init_residual:
            for block in self.blocks:
                assert isinstance(block, BasicBlock)
                silence_branch(block.conv2, block.norm2)

    def forward(self, x: Tensor) -> Tensor:
        """Map [0, 1] pixels to logits."""
        features = self.activate(self.stem_norm(self.stem(self.normalization(x))))
        logits: Tensor = self.linear(self.blocks(features).mean(dim=(2, 3)))
        return logits


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, with the activation after the sum.

    Args:
        layers: what the block is made of
        inputs: channels that come in
        outputs: channels that go out
        stride: of the first convolution and of the shortcut
    """

    def __init__(self, layers: Layers, inputs: int, outputs: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = layers.conv(inputs, outputs, stride=stride)
        self.norm1 = layers.normalize(outputs)
        self.conv2 = layers.conv(outputs, outputs)
        self.norm2 = layers.normalize(outputs)
        self.activate = layers.activate()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                layers.conv(inputs, outputs, kernel=1, stride=stride, padding=0),
                layers.normalize(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the activated sum of branch and shortcut."""
        branch = self.activate(self.norm1(self.conv1(x)))
        activated: Tensor = self.activate(self.norm2(self.conv2(branch)) + self.shortcut(x))
        return activated
