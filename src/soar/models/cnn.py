"""Plain convolutional networks with six and eight layers."""

from __future__ import annotations

from torch import Tensor, nn

from soar.errors import UserError
from soar.models.layers import Layers, Norm, check_task, keep_signal_size, require
from soar.models.normalization import Statistics, normalization_layer


def cnn6(
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    *,
    width: int = 32,
    hidden: int = 512,
    norm: Norm = "none",
    groups: int = 8,
    conv_bias: bool = True,
    input_normalization: str | Statistics = "per-image",
    he_init: bool = False,
) -> CNN:
    """Four unpadded convolutions and two linear layers, the CNN6 of the paper: 0.9 M parameters.

    Args:
        num_classes: the number of logits
        image_shape: channels, height and width of an image, at least 16 x 16
        width: channels of the first two convolutions; the others have twice as many
        hidden: units of the first linear layer
        norm: what follows each convolution: none, batch or group
        groups: the groups of each group norm
        conv_bias: whether convolutions have biases
        input_normalization: none, per-image, the name of a data set, or means and deviations
        he_init: begin with layers that keep the size of signals; PyTorch's own shrink them

    Returns:
        A network that maps [0, 1] pixels to logits.
    """
    return CNN(
        Layers(norm, conv_bias, groups),
        num_classes,
        image_shape,
        widths=(width, 2 * width),
        padding=0,
        hidden=hidden,
        input_normalization=input_normalization,
        he_init=he_init,
    )


def cnn8(
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    *,
    width: int = 64,
    hidden: int = 256,
    norm: Norm = "none",
    groups: int = 4,
    conv_bias: bool = True,
    input_normalization: str | Statistics = "per-image",
    he_init: bool = False,
) -> CNN:
    """Six padded convolutions and two linear layers, the CNN8 of the paper: 1.6 M parameters.

    Args:
        num_classes: the number of logits
        image_shape: channels, height and width of an image, at least 8 x 8
        width: channels of the first two convolutions; the next two have twice as many and the last
            two 49/16 as many, 64, 128 and 196 in the paper
        hidden: units of the first linear layer
        norm: what follows each convolution: none, batch or group
        groups: the groups of each group norm
        conv_bias: whether convolutions have biases
        input_normalization: none, per-image, the name of a data set, or means and deviations
        he_init: begin with layers that keep the size of signals; PyTorch's own shrink them

    Returns:
        A network that maps [0, 1] pixels to logits.
    """
    return CNN(
        Layers(norm, conv_bias, groups),
        num_classes,
        image_shape,
        widths=(width, 2 * width, 49 * width // 16),
        padding=1,
        hidden=hidden,
        input_normalization=input_normalization,
        he_init=he_init,
    )


class CNN(nn.Module):
    """Stages of two 3x3 convolutions and a 2x2 maximum, then two linear layers.

    Args:
        layers: what the stages are made of
        num_classes: the number of logits
        image_shape: channels, height and width of an image
        widths: channels of each stage
        padding: of each convolution; 0 trims two rows and columns
        hidden: units of the first linear layer
        input_normalization: the first layer, see `normalization_layer`
        he_init: begin with layers that keep the size of signals
    """

    def __init__(
        self,
        layers: Layers,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        widths: tuple[int, ...],
        padding: int,
        hidden: int,
        input_normalization: str | Statistics,
        he_init: bool,
    ) -> None:
        super().__init__()
        check_task(num_classes, image_shape)
        require(widths[0] >= 1, "width", widths[0], "at least 1")
        require(hidden >= 1, "hidden", hidden, "at least 1")
        channels, height, width = image_shape
        self.normalization = normalization_layer(input_normalization, channels)
        self.convolutions = nn.Sequential()
        for outputs in widths:
            for inputs in (channels, outputs):
                self.convolutions.append(layers.conv(inputs, outputs, padding=padding))
                self.convolutions.append(layers.normalize(outputs))
                self.convolutions.append(nn.ReLU())
            self.convolutions.append(nn.MaxPool2d(2))
            channels = outputs
        rows = pooled_size(height, len(widths), padding)
        columns = pooled_size(width, len(widths), padding)
        self.hidden = nn.Linear(channels * rows * columns, hidden)
        self.activate = nn.ReLU()
        self.linear = nn.Linear(hidden, num_classes)
        if he_init:
            keep_signal_size(self.convolutions, self.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map [0, 1] pixels to logits."""
        features = self.convolutions(self.normalization(x)).flatten(1)
        logits: Tensor = self.linear(self.activate(self.hidden(features)))
        return logits


def pooled_size(pixels: int, stages: int, padding: int) -> int:
    """Compute the height or width of the feature map that the linear layers see.

    Raises:
        UserError: when nothing is left of the image

    >>> pooled_size(32, stages=2, padding=0), pooled_size(32, stages=3, padding=1)
    (5, 4)
    """
    left = pixels
    for _ in range(stages):
        left = (left - 4 * (1 - padding)) // 2
    if left < 1:
        smallest = 2**stages + (1 - padding) * 4 * (2**stages - 1)
        raise UserError(
            f"image_shape: got {pixels} pixels, expected at least {smallest} in height and width "
            "for this network; a resnet takes any size (model.name)"
        )
    return left
