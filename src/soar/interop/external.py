"""Attacks of other libraries inside our engine: they search by themselves, the engine checks what they found.

The other library runs its whole search on a batch when the engine starts it. What it returns is not trusted:
the engine brings every point back into the threat set, evaluates the model itself and counts a success only
where the prediction is wrong at that very point.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks.attack import Examples
from soar.attacks.transfer import Shown, ShownState
from soar.errors import UserError
from soar.model_state import probing
from soar.prediction import find_logits
from soar.threat import Threat


@dataclass(frozen=True)
class Search:
    """A call of another library's attack; its text names the attack and its numbers, for the record.

    >>> class PGD:
    ...     def __init__(self) -> None:
    ...         self.steps, self.eps, self._device = 10, 0.1, "cpu"
    >>> print(Search(PGD(), lambda x, labels, threat: x))
    PGD(eps=0.1, steps=10)
    """

    attack: Any
    call: Callable[[Tensor, Tensor, Threat], Tensor]
    """returns a point for each image, from images, labels and the threat"""

    def __str__(self) -> str:
        numbers = [
            f"{name}={value!r}"
            for name, value in sorted(vars(self.attack).items())
            if not name.startswith("_") and isinstance(value, bool | int | float | str)
        ]
        return f"{type(self.attack).__name__}({', '.join(numbers)})"


@dataclass(frozen=True)
class FoundState(ShownState):
    """The points that were found, whether they have been shown, and how many passes they took."""

    forward: Tensor
    backward: Tensor


@dataclass(frozen=True, kw_only=True)
class ExternalAttack(Shown[FoundState]):
    """An attack of another library; made by `from_foolbox`, `from_torchattacks` and `from_art`.

    Its random numbers come from global generators, which are seeded for each batch and then restored. The
    same call returns the same points, but unlike with our attacks they depend on the batch size.

    Args:
        label: its name in the record
        library: the library and its version
        search: calls it
        model: the model that it attacks; every pass through it is counted
        entrance: the module that the library calls, where that is not the model itself
    """

    label: str = "external attack"
    library: str
    search: Search
    model: nn.Module
    entrance: nn.Module

    def start(self, examples: Examples, threat: Threat) -> FoundState:
        """Let the library attack the batch.

        Raises:
            UserError: if there are target classes, or the library returns points of another shape
        """
        if examples.has_goal:
            raise UserError(f"{self.label}: got target classes, but attacks of {self.library} take none")
        x, labels = examples.x, examples.labels
        with _seeded(examples), probing(self.model), counting(self.entrance) as passes, torch.enable_grad():
            points = self.search.call(x.clone(), labels.clone(), threat).detach().to(x)
        if points.shape != x.shape:
            shapes = f"{tuple(points.shape)} for images of shape {tuple(x.shape)}"
            raise UserError(f"{self.label}: {self.library} gave points of shape {shapes}")
        return FoundState(
            examples,
            points,
            forward=_shared(passes["forward"], labels),
            backward=_shared(passes["backward"], labels),
            shown=torch.zeros_like(labels, dtype=torch.bool),
        )

    def spent(self, state: FoundState) -> tuple[Tensor, Tensor]:
        """Return how many predictions and gradients the search took; those of a batch are shared evenly."""
        return state.forward, state.backward


@contextmanager
def counting(model: nn.Module) -> Iterator[Counter[str]]:
    """Count the samples that pass through a model within this context, "forward" and "backward".

    Args:
        model: returns logits, also among others, or a list of outputs that ends with them

    >>> model = nn.Flatten()
    >>> with counting(model) as passes:
    ...     model(torch.ones(5, 2, requires_grad=True)).sum().backward()
    >>> passes["forward"], passes["backward"]
    (5, 5)
    """
    passes: Counter[str] = Counter()

    def count_backward(gradient: Tensor) -> None:
        passes["backward"] += len(gradient)

    def count_forward(model: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG001 - a hook's arguments
        logits = find_logits(output[-1] if isinstance(output, list) else output)
        passes["forward"] += len(logits)
        if logits.requires_grad:
            logits.register_hook(count_backward)

    hook = model.register_forward_hook(count_forward)
    try:
        yield passes
    finally:
        hook.remove()


def _shared(total: int, labels: Tensor) -> Tensor:
    """Share a batch's passes evenly; the sum stays exact."""
    count = len(labels)
    extra = torch.arange(count, device=labels.device) < total % count
    return extra.to(torch.int64) + total // count


@contextmanager
def _seeded(examples: Examples) -> Iterator[None]:
    """Seed the global generators that other libraries draw from, and restore them afterward."""
    seed = int(randomness.key(examples.seed, examples.index[:1], "foreign")[0]) % 2**32
    plain, arrays = random.getstate(), numpy.random.get_state()
    devices = [examples.x.device] if examples.x.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            random.seed(seed)
            numpy.random.seed(seed)
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(plain)
        numpy.random.set_state(arrays)
