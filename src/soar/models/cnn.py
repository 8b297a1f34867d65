"""Plain convolutional networks with six and eight layers."""

from __future__ import annotations

from torch import Tensor, nn

from soar.errors import UserError
from soar.models.layers import (
    Activation,
    Layers,
    Norm,
    Statistics,
    check_task,
    keep_signal_size,
    normalization_layer,
    require,
)


def cnn6(
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    *,
    width: int = 32,
    hidden: int = 512,
    norm: Norm = "none",
    groups: int = 8,
    conv_bias: bool = True,
    activation: Activation = "relu",
    input_normalization: str | Statistics = "per-image",
    he_init: bool = False,
) -> CNN:
    """Four unpadded convolutions and two linear layers, the CNN6 of the paper: 0.9 M parameters.

    The options are those of `CNN`; images have at least 16 x 16 pixels.
    """
    return CNN(factors=(1, 2), padding=0, **locals())


def cnn8(
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    *,
    width: int = 64,
    hidden: int = 256,
    norm: Norm = "none",
    groups: int = 4,
    conv_bias: bool = True,
    activation: Activation = "relu",
    input_normalization: str | Statistics = "per-image",
    he_init: bool = False,
) -> CNN:
    """Six padded convolutions and two linear layers, the CNN8 of the paper: 1.6 M parameters.

    The options are those of `CNN`; images have at least 8 x 8 pixels. In the paper,
    stages have 64, 128 and 196 channels.
    """
    return CNN(factors=(1, 2, 49 / 16), padding=1, **locals())


class CNN(nn.Module):
    """Stages of two 3x3 convolutions and a 2x2 maximum, then two linear layers: [0, 1] pixels to logits.

    Args:
        num_classes: the number of logits
        image_shape: channels, height and width of an image
        factors: channels of each stage, as multiples of `width`
        padding: of each convolution; 0 trims two rows and columns
        width: channels of the first stage
        hidden: units of the first linear layer
        norm: what follows each convolution: none, batch or group
        groups: the groups of each group norm
        conv_bias: whether convolutions have biases
        activation: relu, silu, gelu or softplus
        input_normalization: none, per-image, the name of a dataset, or means and deviations
        he_init: initialize layers so that activations keep their scale; PyTorch's default shrinks them
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: tuple[int, int, int],
        *,
        factors: tuple[float, ...],
        padding: int,
        width: int,
        hidden: int,
        norm: Norm,
        groups: int,
        conv_bias: bool,
        activation: Activation,
        input_normalization: str | Statistics,
        he_init: bool,
    ) -> None:
        super().__init__()
        layers = Layers(norm, conv_bias, groups, activation)
        check_task(num_classes, image_shape)
        require(width >= 1, "width", width, "at least 1")
        require(hidden >= 1, "hidden", hidden, "at least 1")
        channels, height, columns = image_shape
        self.normalization = normalization_layer(input_normalization, channels)
        self.convolutions = nn.Sequential()
        for outputs in (int(factor * width) for factor in factors):
            for inputs in (channels, outputs):
                self.convolutions.append(layers.conv(inputs, outputs, padding=padding))
                self.convolutions.append(layers.normalize(outputs))
                self.convolutions.append(layers.activate())
            self.convolutions.append(nn.MaxPool2d(2))
            channels = outputs
        rows, columns = (pooled_size(pixels, len(factors), padding) for pixels in (height, columns))
        self.hidden = nn.Linear(channels * rows * columns, hidden)
        self.activate = layers.activate()
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
