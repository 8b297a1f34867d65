"""Models whose minimal perturbations are known, shared by the attack tests."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from soar import randomness

SHAPE = (1, 3, 4)


class Linear(nn.Module):
    """A linear classifier on pixels; its distance to another class is known in closed form."""

    def __init__(self, classes: int = 2, seed: int = 0) -> None:
        super().__init__()
        keys = randomness.key(seed, torch.arange(classes), "weights")
        self.weight = nn.Parameter(randomness.normal(keys, SHAPE, torch.float64))
        self.bias = nn.Parameter(torch.zeros(classes, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weight.flatten(1).T + self.bias

    def distances(self, x: Tensor, labels: Tensor, dual: float) -> Tensor:
        """How far each image is from the nearest other class; dual is 1 for linf, 2 for l2, inf for l1."""
        with torch.no_grad():
            logits = self(x)
            w = self.weight.flatten(1)
            gaps = logits.gather(1, labels[:, None]) - logits
            lengths = torch.linalg.vector_norm(w[labels][:, None] - w[None], ord=dual, dim=2)
            far = torch.where(lengths > 0, gaps / lengths.clamp(min=1e-12), torch.inf)
            return far.amin(dim=1)


class TinyNet(nn.Module):
    """A small smooth network in float64, rough enough that attacks need several steps."""

    def __init__(self, classes: int = 5, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Conv2d(SHAPE[0], 6, 3, padding=1), nn.Softplus(), nn.Flatten(), nn.Linear(72, classes)
            )
        self.to(torch.float64)
        for parameter in self.parameters():
            parameter.data.mul_(4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


class Passes(nn.Module):
    """Notes for every forward pass of a small network whether it was in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.model = TinyNet()
        self.modes: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.modes.append(self.training)
        logits: Tensor = self.model(x)
        return logits


def images(count: int, seed: int = 0) -> Tensor:
    """Images well inside the pixel range, so that only the ball limits small perturbations."""
    keys = randomness.key(seed, torch.arange(count), "images")
    return 0.3 + 0.4 * randomness.uniform(keys, SHAPE, torch.float64)


def said(model: nn.Module, x: Tensor) -> Tensor:
    """The model's own predictions, used as labels so that every clean image is right."""
    with torch.no_grad():
        labels: Tensor = model(x).argmax(dim=1)
        return labels


class Normalized(nn.Module):
    """A small network in float32 behind a normalization, which works in place where that is asked for."""

    def __init__(self, *, in_place: bool = False, classes: int = 5) -> None:
        super().__init__()
        self.net = TinyNet(classes).float()
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        x = x.sub_(0.5).div_(0.25) if self.in_place else (x - 0.5) / 0.25
        logits: Tensor = self.net(x)
        return logits


class ModelOutput(OrderedDict[str, Any]):
    """What networks of Hugging Face return: a dict, an object with fields, and nothing that is None."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Outputs(NamedTuple):
    """What some networks of torchvision return in training."""

    aux: Tensor
    logits: Tensor


OUTPUTS: dict[str, Callable[[Tensor], Any]] = {
    "ModelOutput": lambda logits: ModelOutput(logits=logits, hidden_states=(logits + 1,)),
    "dict": lambda logits: {"features": -logits, "logits": logits},
    "object": lambda logits: SimpleNamespace(loss=None, logits=logits),
    "named tuple": lambda logits: Outputs(-logits, logits),
    "tuple": lambda logits: (logits, -logits, None),
}
"""outputs that hold more than logits"""


class Answering(nn.Module):
    """A network with a batch norm whose output holds its logits in some way, or is them."""

    def __init__(self, kind: str = "") -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.net = Plain()
        self.wrap = OUTPUTS[kind] if kind else lambda logits: logits

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> Any:
        return self.wrap(self.net(pixel_values))


class HalfInside(nn.Module):
    """Takes float32 and computes in bfloat16, its answer included."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.net = TinyNet().bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net((self.scale * x).bfloat16())
        return logits


class Autocast(nn.Module):
    """Switches autocast on inside of its forward pass, so float32 weights give bfloat16 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.net = TinyNet().float()

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits: Tensor = self.net(x)
        return logits


class DoubleHead(nn.Module):
    """Takes float32 and returns float64, far from zero, where float32 could not tell logits apart."""

    def __init__(self) -> None:
        super().__init__()
        self.net = TinyNet().float()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x).double() * 1e-6 + 1e3
        return logits


class Plain(nn.Sequential):
    """A network that can be scripted, with a batch norm to fold."""

    def __init__(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            super().__init__(
                nn.Conv2d(SHAPE[0], 6, 3, padding=1),
                nn.BatchNorm2d(6),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(72, 5),
            )
        self.eval()


def scripted() -> nn.Module:
    """Compile a network by its source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found: nn.Module = torch.jit.script(Plain())
    return found


def traced() -> nn.Module:
    """Compile a network by what it does to some images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found: nn.Module = torch.jit.trace(Plain(), images(3).float())
    return found


OTHER_KINDS: dict[str, Callable[[], nn.Module]] = {
    "bfloat16 inside": HalfInside,
    "autocast inside": Autocast,
    "float64 head": DoubleHead,
    "scripted": scripted,
    "traced": traced,
}
"""models whose logits have another precision than their images, and compiled ones"""
