"""Image classifiers that map [0, 1] pixels to logits; input normalization is their first layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from soar import values
from soar.errors import UserError, first_line, shown
from soar.models.cnn import cnn6, cnn8
from soar.models.external import build_external, load_external_weights
from soar.models.layers import STATISTICS, Statistics, standardize
from soar.models.resnet import resnet10, resnet18
from soar.models.wide_resnet import wide_resnet
from soar.registry import Registry

MODELS: Registry[nn.Module] = Registry("model")
MODELS.register("cnn6")(cnn6)
MODELS.register("cnn8")(cnn8)
MODELS.register("resnet10")(resnet10)
MODELS.register("resnet18")(resnet18)
MODELS.register("wide_resnet")(wide_resnet)


def build(
    name: str,
    *,
    seed: int,
    num_classes: int = 10,
    image_shape: tuple[int, int, int] = (3, 32, 32),
    options: dict[str, Any] | None = None,
) -> nn.Module:
    """Build a model on the CPU with weights that depend on the seed alone.

    PyTorch's initializers draw from the global generator. It is seeded for the call and then restored.

    Args:
        name: a name in `MODELS`, `timm:NAME`, or what decides itself how many classes and what images it is
            for: `hf:FOLDER`, `robustbench:NAME`, `package.module:callable`
        seed: seed of the initial weights
        num_classes: the number of logits
        image_shape: channels, height and width of an image
        options: the builder's own options, as a recipe or a flag gives them

    Raises:
        UserError: for an unknown name, an unknown option or a value out of range

    >>> first, second = (build("cnn6", seed=7, options={"width": "4"}) for _ in range(2))
    >>> torch.equal(first.linear.weight, second.linear.weight)
    True
    """
    values.whole(seed, "seed")
    if options is not None and not isinstance(options, dict):
        raise UserError(f"model: got options {shown(options)}, expected a dict")
    if isinstance(name, str) and ":" in name:
        return build_external(name, seed, options, num_classes=num_classes, image_shape=image_shape)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # torch.manual_seed would reseed the accelerators too, which fork_rng does not restore.
        torch.default_generator.manual_seed(int(seed))
        try:
            return MODELS.build(name, options or {}, num_classes, image_shape)
        except (RuntimeError, MemoryError, OverflowError) as error:  # tensors too large to allocate
            raise UserError(f"model: {name} cannot be built ({first_line(error)})") from error


__all__ = [
    "MODELS",
    "STATISTICS",
    "Statistics",
    "build",
    "build_external",
    "cnn6",
    "cnn8",
    "load_external_weights",
    "resnet10",
    "resnet18",
    "standardize",
    "wide_resnet",
]
