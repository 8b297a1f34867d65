"""An attack of another library inside our engine: it searches by itself, the engine judges what it found.

The other library runs its whole search on a batch when the engine starts it. What it hands over is not
trusted: the engine brings every point back into the threat set, asks the model itself and counts a success
only where the model is wrong at that very point.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from soar import randomness
from soar.attacks.attack import Examples
from soar.attacks.shown import Shown, ShownState
from soar.errors import UserError
from soar.interop.passes import Passes
from soar.model_state import probing
from soar.threat import Threat


class Search(Protocol):
    """What calls the other library; its text names the attack and its numbers, for the record."""

    def __call__(self, x: Tensor, labels: Tensor, threat: Threat) -> Tensor:
        """Return a point for each image."""


@dataclass(frozen=True)
class FoundState(ShownState):
    """The points that were found, whether they have been shown, and what they cost."""

    forward: Tensor
    backward: Tensor


@dataclass(frozen=True)
class Foreign(Shown[FoundState]):
    """An attack of another library; made by `from_foolbox`, `from_torchattacks` and `from_art`.

    Its random numbers come from global generators, which are seeded for the time of a batch and then put
    back. The same call gives the same points, but unlike with our attacks they depend on the batch size.

    Args:
        label: what the record calls it
        library: the library and its version
        search: calls it
        model: the model that it attacks; every pass through it is counted
        entrance: the module that the library calls, where that is not the model itself
    """

    label: str
    library: str
    search: Search
    model: nn.Module
    entrance: nn.Module

    def start(self, examples: Examples, threat: Threat) -> FoundState:
        """Let the library attack the batch.

        Raises:
            UserError: if a class to end in is asked for, or the library gives points of another shape
        """
        if bool((examples.goal >= 0).any()):
            raise UserError(f"{self.label}: got classes to end in, but attacks of {self.library} take none")
        x, labels = examples.x, examples.labels
        with _seeded(examples), probing(self.model), Passes(self.entrance) as passes, torch.enable_grad():
            points = self.search(x.clone(), labels.clone(), threat).detach().to(x)
        if points.shape != x.shape:
            shapes = f"{tuple(points.shape)} for images of shape {tuple(x.shape)}"
            raise UserError(f"{self.label}: {self.library} gave points of shape {shapes}")
        return FoundState(
            examples,
            points,
            forward=_shared(passes.forward, labels),
            backward=_shared(passes.backward, labels),
            shown=torch.zeros_like(labels, dtype=torch.bool),
        )

    def spent(self, state: FoundState) -> tuple[Tensor, Tensor]:
        """Return how many predictions and gradients the search took; those of a batch are shared evenly."""
        return state.forward, state.backward


def settings(attack: Any) -> str:
    """Name an attack and its plain numbers, in the same words every time.

    >>> class PGD:
    ...     def __init__(self) -> None:
    ...         self.steps, self.eps, self._device = 10, 0.1, "cpu"
    >>> settings(PGD())
    'PGD(eps=0.1, steps=10)'
    """
    numbers = {
        name: value
        for name, value in sorted(vars(attack).items())
        if not name.startswith("_") and isinstance(value, bool | int | float | str)
    }
    inside = ", ".join(f"{name}={value!r}" for name, value in numbers.items())
    return f"{type(attack).__name__}({inside})"


def versioned(library: str) -> str:
    """Return a library's name with its version, where it is installed as a package."""
    try:
        return f"{library} {metadata.version(library)}"
    except metadata.PackageNotFoundError:
        return library


def require_fit(label: str, threat: Threat, *, norm: Any = None, eps: Any = None) -> None:
    """Refuse an attack that was made for another norm or radius than the threat's, where it tells them.

    A larger radius would be cut down by the engine, and a smaller one would make the model look robust.

    Args:
        label: the attack
        threat: what the adversary may do
        norm: as other libraries write it, such as inf, "Linf" or 2
        eps: the radius that the attack holds

    Raises:
        UserError: what was got and what is expected

    >>> from soar.threat import Linf
    >>> require_fit("PGD", Linf(0.1), norm=float("inf"), eps=0.1)
    >>> require_fit("PGD", Linf(0.1), norm="L2")
    Traceback (most recent call last):
    soar.errors.UserError: PGD: got the norm l2, expected that of the threat, linf 0.1
    """
    if norm is not None:
        name = "l" + str(norm).lower().removeprefix("l").removesuffix(".0")
        if name != threat.norm_name:
            raise UserError(f"{label}: got the norm {name}, expected that of the threat, {threat}")
    if isinstance(eps, int | float) and abs(eps - threat.radius) > 1e-6 * threat.radius:
        raise UserError(f"{label}: got eps {eps:g}, expected that of the threat, {threat.radius:g}")


def _shared(total: int, labels: Tensor) -> Tensor:
    """Share a batch's passes evenly; the sum stays exact."""
    count = len(labels)
    extra = torch.arange(count, device=labels.device) < total % count
    return extra.to(torch.int64) + total // count


@contextmanager
def _seeded(examples: Examples) -> Iterator[None]:
    """Seed the global generators that other libraries draw from, and put them back afterwards."""
    import numpy

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
