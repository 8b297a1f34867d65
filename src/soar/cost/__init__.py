"""What training and attacks cost: passes through the network and floating-point operations, counted.

`Counter` counts whatever runs while it is entered. `count_objective` counts one update of an objective on a
stand-in network: passes do not depend on the network, and their work in forward passes hardly does.
`soar.cost.training` adds up whole training runs, `soar.cost.step` times single steps.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from soar import attacks
from soar.attacks.attack import Attack
from soar.cost.workload import Workload, build
from soar.model_state import probing
from soar.objectives import Objective
from soar.objectives.inner_passes import statistics
from soar.prediction import find_logits
from soar.threat import Threat

_TINY_RADIUS = 1e-6


class Counter(TorchDispatchMode):
    """Count the passes through a model and all floating-point operations while it is entered.

    PyTorch's own FlopCounterMode does not work with gradients inside a training step.

    Args:
        model: the model whose passes count

    Attributes:
        forwards: batches that went through the model
        backwards: gradients that came back through its logits; the last backward pass of a gradient penalty
            comes back through every point at which the penalty takes a gradient
        flop: operations of matrix products and convolutions; a multiplication with an addition counts two

    >>> model = nn.Linear(3, 2)
    >>> with Counter(model) as counter:
    ...     model(torch.ones(1, 3)).sum().backward()
    >>> counter.forwards, counter.backwards, counter.flop
    (1, 1, 24.0)
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.forwards = self.backwards = 0
        self.flop = 0.0
        self._model = model

    def __enter__(self) -> Self:
        self._hook = self._model.register_forward_hook(self._count_forward)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._hook.remove()

    def _count_forward(self, _: nn.Module, __: Any, output: object) -> None:
        self.forwards += 1
        logits = find_logits(output)
        if logits.requires_grad:
            logits.register_hook(self._count_backward)

    def _count_backward(self, _: Tensor) -> None:
        self.backwards += 1

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        result = function(*given, **(named or {}))
        formula = flop_registry.get(function._overloadpacket)
        if formula is not None:
            self.flop += formula(*given, **(named or {}), out_val=result)
        return result


class PassCount(NamedTuple):
    """The passes of each image through a network.

    Args:
        forwards: how many go forward
        backwards: how many go back
        work: floating-point operations of all of them, in forward passes of the same images
    """

    forwards: int
    backwards: int
    work: float


# Enough images that the share of a batch which an objective may treat apart comes out as a share.
_STAND_IN = Workload(
    name="stand-in", model="resnet10", options=(("width", 16),), image_shape=(3, 8, 8), batch_size=16
)


def count_update(objective: Objective, x: Tensor, y: Tensor) -> PassCount:
    """Count the passes of one update: the loss of an objective on a batch and its gradient.

    Args:
        objective: an objective, as of `build`
        x: images
        y: labels
    """
    with Counter(objective.model) as counter:
        objective(x, y, torch.arange(len(y), device="cpu"), 0).loss.backward()
    return PassCount(counter.forwards, counter.backwards, counter.flop / _forward_flop(objective.model, x))


@cache
def count_objective(name: str, **options: Any) -> PassCount:
    """Count the passes of one update of an objective, on a stand-in network.

    Args:
        name: a name of `soar list objectives`
        options: options of the objective, as in a recipe

    Raises:
        UserError: if the objective or one of its options does not exist

    >>> count_objective("adversarial", steps=10)[:2], count_objective("standard")[:2]
    ((11, 11), (1, 1))
    """
    return count_update(*build({"name": name, **options}, _STAND_IN))


def relative_work(name: str, **options: Any) -> float:
    """Return the operations of an update of an objective, relative to those of PGD-10 training.

    Args:
        name: a name of `soar list objectives`
        options: options of the objective, as in a recipe

    Raises:
        UserError: if the objective or one of its options does not exist, or a required one is missing

    >>> [round(relative_work(name), 2) for name in ("standard", "soar")]
    [0.13, 0.52]
    """
    return count_objective(name, **options).work / count_objective("adversarial", steps=10).work


def run_unfooled(
    model: nn.Module, attack: Attack[Any], threat: Threat, images: Tensor, *, batch_size: int = 128
) -> tuple[int, int]:
    """Attack the predictions of a model within a radius so small that no image leaves the attack early.

    Args:
        model: any classifier
        attack: the attack
        threat: only its norm matters
        images: images
        batch_size: images in a batch

    Returns:
        The forward and backward passes of an image, with the prediction for the clean image.
    """
    with probing(model):
        logits = attacks.predict(model, images, batch_size)
    found = attacks.run(
        model,
        attack,
        threat.scaled(_TINY_RADIUS),
        images,
        logits.argmax(dim=1),
        batch_size=batch_size,
        clean_logits=logits,
    )
    return 1 + int(found.forward.max()), int(found.backward.max())


def _forward_flop(model: nn.Module, x: Tensor) -> float:
    with Counter(model) as counter, statistics(model, "batch"), torch.no_grad():
        model(x)
    return counter.flop
