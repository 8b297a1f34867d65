"""The networks that a training step is measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from soar.errors import unknown


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network and the batch it is trained with.

    Args:
        name: what it is called here
        model: a name of `soar list models`
        options: of the model
        image_shape: channels, height and width of an image
        batch_size: images in a batch
    """

    name: str
    model: str
    options: tuple[tuple[str, Any], ...] = ()
    image_shape: tuple[int, int, int] = (3, 32, 32)
    batch_size: int = 32


_PRESETS = (
    Network(name="resnet10-w16", model="resnet10", options=(("width", 16),), batch_size=128),
    Network(name="resnet10-w64", model="resnet10", options=(("width", 64),), batch_size=32),
    Network(name="wrn-28-2", model="wide_resnet", options=(("depth", 28), ("widen", 2)), batch_size=32),
    Network(name="resnet18-bn", model="resnet18", options=(("norm", "batch"),), batch_size=16),
)
NETWORKS = {network.name: network for network in _PRESETS}
"""The network of the paper, narrow and as printed, and two with batch norm, deep and wide."""


def preset(name: str) -> Network:
    """Return a network by its name.

    Raises:
        UserError: if there is none of that name

    >>> preset("resnet10-w16").batch_size
    128
    """
    if name not in NETWORKS:
        raise unknown("network", name, NETWORKS, "--networks")
    return NETWORKS[name]
