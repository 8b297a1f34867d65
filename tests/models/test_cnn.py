import pytest
import torch
from torch import nn

from soar import models
from soar.errors import UserError
from soar.models.cnn import CNN, pooled_size


@pytest.mark.parametrize("name, smallest", [("cnn6", 16), ("cnn8", 8)])
def test_smallest_image_is_the_one_the_message_names(name: str, smallest: int) -> None:
    network = models.build(name, seed=0, image_shape=(1, smallest, smallest))
    assert network(torch.zeros(1, 1, smallest, smallest)).shape == (1, 10)
    with pytest.raises(UserError) as caught:
        models.build(name, seed=0, image_shape=(1, smallest, smallest - 1))
    assert str(caught.value) == (
        f"image_shape: got {smallest - 1} pixels, expected at least {smallest} in height and width "
        "for this network; a resnet takes any size (model.name)"
    )


@pytest.mark.parametrize("stages, padding", [(2, 0), (3, 1), (1, 0)])
@pytest.mark.parametrize("pixels", [28, 32, 33])
def test_pooled_size_is_what_the_layers_leave(pixels: int, stages: int, padding: int) -> None:
    stage = nn.Sequential(
        nn.Conv2d(1, 1, 3, padding=padding), nn.Conv2d(1, 1, 3, padding=padding), nn.MaxPool2d(2)
    )
    x = torch.zeros(1, 1, pixels, pixels)
    for _ in range(stages):
        x = stage(x)
    assert x.shape[-1] == pooled_size(pixels, stages, padding)


def test_cnn8_has_the_widths_of_the_paper() -> None:
    with torch.device("meta"):
        network = models.cnn8()
    convolutions = [m.out_channels for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert convolutions == [64, 64, 128, 128, 196, 196]


@pytest.mark.parametrize("name", ["cnn6", "cnn8"])
def test_he_init_keeps_the_size_of_signals_and_the_default_does_not(name: str) -> None:
    x = torch.rand(16, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    sizes = {}
    for he_init in (False, True):
        options = {"he_init": he_init, "input_normalization": "none"}
        network = models.build(name, seed=0, options=options)
        assert isinstance(network, CNN)
        with torch.no_grad():
            hidden = network.hidden(network.convolutions(x).flatten(1))
        sizes[he_init] = float(hidden.square().mean().sqrt() / x.square().mean().sqrt())
    assert sizes[False] < 0.2
    assert 0.5 < sizes[True] < 20
