"""The networks and batches that training steps are measured on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from soar import models, randomness
from soar.objectives import OBJECTIVES, Objective
from soar.objectives.inner_passes import statistics
from soar.options import parse_spec
from soar.prediction import find_logits, logits_of
from soar.threat import Linf
from soar.training.weights import memory_layout

THREAT = Linf("8/255")
_CLEAR_MARGIN = 8.0


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A network and the batch it is trained with.

    Args:
        name: the name of the workload
        model: a name of `soar list models`
        options: options of the model
        image_shape: channels, height and width of an image
        batch_size: images in a batch
    """

    name: str
    model: str
    options: tuple[tuple[str, Any], ...] = ()
    image_shape: tuple[int, int, int] = (3, 32, 32)
    batch_size: int = 32


WORKLOADS = {
    one.name: one
    for one in (
        Workload(name="resnet10-w16", model="resnet10", options=(("width", 16),), batch_size=128),
        Workload(name="resnet10-w64", model="resnet10", options=(("width", 64),), batch_size=32),
        Workload(
            name="wrn-28-2", model="wide_resnet", options=(("depth", 28), ("widen_factor", 2)), batch_size=32
        ),
        Workload(name="resnet18-bn", model="resnet18", options=(("norm", "batch"),), batch_size=16),
    )
}
"""The network of the paper, narrow and as published, and two with batch norm, deep and wide."""


def build(objective: str | Mapping[str, Any], workload: Workload) -> tuple[Objective, Tensor, Tensor]:
    """Build an objective around a newly initialized network, and a batch whose labels are its predictions.

    Args:
        objective: a spec such as "adversarial:steps=10", or the objective of a recipe
        workload: the network and the batch

    Raises:
        UserError: if the objective or one of its options does not exist
    """
    if isinstance(objective, str):
        name, options = parse_spec(objective, "objectives")
    else:
        options = dict(objective)
        name = options.pop("name")
    shape = workload.image_shape
    model = models.build(workload.model, seed=0, image_shape=shape, options=dict(workload.options))
    x = randomness.uniform(randomness.key(0, torch.arange(workload.batch_size, device="cpu"), "bench"), shape)
    y, _ = sharpen(model, x)
    layout = memory_layout(model, torch.device("cpu"), channels_last=True)
    model.to(memory_format=layout)  # type: ignore[call-overload]
    made = OBJECTIVES.build(name, options, model, THREAT, seed=0)
    return made, x.to(memory_format=layout), y


def sharpen(model: nn.Module, x: Tensor) -> tuple[Tensor, RemovableHandle]:
    """Scale the logits of a model so that its predictions are clear.

    With these predictions as labels, an objective that searches around correctly classified examples only, as
    MMA does, has all its work to do.

    Args:
        model: a model in training mode
        x: images

    Returns:
        The predictions, and the handle that removes the scaling, also as a context manager.
    """
    with statistics(model, "batch"), torch.no_grad():
        best = logits_of(model, x).topk(2, dim=1)
    gap = float((best.values[:, 0] - best.values[:, 1]).median())
    factor = _CLEAR_MARGIN / gap if gap > 0 else 1.0
    return best.indices[:, 0], model.register_forward_hook(lambda _, __, output: factor * find_logits(output))
