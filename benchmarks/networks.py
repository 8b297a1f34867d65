"""Train small robust networks of different make, on which `benchmarks/suites.py` compares the suites.

    python benchmarks/networks.py                   all of them, in 90 minutes on one core; resumable
    python benchmarks/networks.py cifar10-vit-pgd   only this one

They differ in what an attack may stumble over: norms or none, ReLU or SiLU, convolution or attention, the
objective, the data and the ball. Weights are kept in benchmarks/.cache.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import soar
from soar import data, models
from soar.threat import L2, Linf, Threat

CACHE = Path(__file__).parent / ".cache"
FASHION_MNIST = "fashion-mnist"


class Attention(nn.Module):
    """A small vision transformer: patches of 4 x 4, learned positions, the mean of the tokens.

    Args:
        shape: of an image
        classes: how many there are
        width: of a token
        depth: how many layers there are
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 96, depth: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(shape[0], width, 4, 4)
        self.positions = nn.Parameter(torch.randn(1, shape[1] * shape[2] // 16, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        tokens = self.patches((x - 0.5) / 0.25).flatten(2).transpose(1, 2) + self.positions
        logits: Tensor = self.head(self.layers(tokens).mean(dim=1))
        return logits


class Mixer(nn.Module):
    """A small MLP-Mixer: patches of 4 x 4, then linear layers over places and over channels in turn.

    Args:
        shape: of an image
        classes: how many there are
        width: of a token
        depth: how many pairs of layers there are
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: int = 48, depth: int = 3) -> None:
        super().__init__()
        places = shape[1] * shape[2] // 16
        self.patches = nn.Conv2d(shape[0], width, 4, 4)
        self.over_places = nn.ModuleList(self._layers(places) for _ in range(depth))
        self.over_channels = nn.ModuleList(self._layers(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    @staticmethod
    def _layers(size: int) -> nn.Module:
        return nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        tokens = self.patches((x - 0.5) / 0.25).flatten(2)
        for places, channels in zip(self.over_places, self.over_channels, strict=True):
            tokens = tokens + places(tokens)
            tokens = tokens + channels(tokens.transpose(1, 2)).transpose(1, 2)
        logits: Tensor = self.head(tokens.mean(dim=2))
        return logits


@dataclass(frozen=True)
class Network:
    """How a network is made and trained."""

    data: str
    threat: Threat
    model: str | Callable[..., nn.Module]
    """a name, or a function of the shape of an image, the number of classes and the options"""
    options: dict[str, Any]
    objective: Callable[[nn.Module, Threat], soar.objectives.Objective]
    images: int
    """how many images are seen in training"""
    learning_rate: float = 0.1
    optimizer: str = "sgd"
    test_images: int = 300
    """how many images the suites are compared on: as many as took about five minutes under `standard`"""
    warm_up: int = 0
    """how many of them are seen without an attack first: without norms the others may not learn at all"""
    augment: bool = True


def pgd(steps: int) -> Callable[[nn.Module, Threat], soar.objectives.Objective]:
    """Train on the points of PGD."""
    return lambda model, threat: soar.objectives.Adversarial(model, threat, steps=steps)


def trades(model: nn.Module, threat: Threat) -> soar.objectives.Objective:
    """Train with TRADES on the points of two steps."""
    return soar.objectives.TRADES(model, threat, beta=6.0, steps=2)


def soar_default(model: nn.Module, threat: Threat) -> soar.objectives.Objective:
    """Train with SOAR as it comes."""
    return soar.objectives.SOAR(model, threat)


_8, _BATCH = Linf("8/255"), {"width": 16, "norm": "batch"}
_SILU = {"depth": 10, "widen_factor": 1, "activation": "silu"}
NETWORKS = {
    "cifar10-resnet-bn-pgd": Network("cifar10", _8, "resnet10", _BATCH, pgd(2), 120_000, test_images=500),
    "cifar10-silu-trades": Network("cifar10", _8, "wide_resnet", _SILU, trades, 120_000, test_images=200),
    "cifar10-silu-soar": Network(
        "cifar10", _8, "wide_resnet", _SILU, soar_default, 90_000, 0.05, test_images=200
    ),
    "fashion-resnet-pgd": Network(
        FASHION_MNIST, Linf("0.1"), "resnet10", {"width": 8}, pgd(3), 80_000, 2e-3, "adamw", 500, 20_000
    ),
    "cifar10-vit-pgd": Network(
        "cifar10", _8, "attention", {"width": 64, "depth": 3}, pgd(2), 120_000, 1e-3, "adamw"
    ),
    "cifar10-resnet-pgd": Network(
        "cifar10", _8, "resnet10", {"width": 16}, pgd(2), 100_000, 2e-3, "adamw", 300, 30_000
    ),
    "fashion-silu-trades": Network(
        FASHION_MNIST, Linf("0.1"), "wide_resnet", _SILU, trades, 30_000, test_images=200
    ),
    "fashion-cnn-bn-pgd": Network(
        FASHION_MNIST, Linf("0.1"), "cnn6", {"width": 8, "hidden": 64, "norm": "batch"}, pgd(2), 40_000, 0.05
    ),
    "fashion-mixer-pgd": Network(
        FASHION_MNIST, Linf("0.1"), "mixer", {}, pgd(2), 60_000, 2e-3, "adamw", warm_up=10_000
    ),
    "cifar10-resnet-bn-l2": Network("cifar10", L2("0.5"), "resnet10", _BATCH, pgd(2), 60_000),
}


class Hidden(nn.Module):
    """A network that hides its gradients: behind rounded pixels, a factor of its logits, or noise.

    Args:
        network: what is hidden
        how: rounded, scaled or noisy
    """

    def __init__(self, network: nn.Module, how: str) -> None:
        super().__init__()
        self.network, self.how = network, how

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        if self.how == "rounded":
            x = (15 * x).round() / 15
        if self.how == "noisy":
            x = x + 0.05 * torch.randn_like(x)
        logits: Tensor = self.network(x)
        return 1000 * logits if self.how == "scaled" else logits


MASKED = [f"fashion-resnet-pgd+{how}" for how in ("rounded", "scaled", "noisy")]
"""networks of which gradient attacks say too much good, by the names that `load` knows"""


def build(network: Network, source: data.Dataset) -> nn.Module:
    """Make a network without its training."""
    own: dict[str, Callable[..., nn.Module]] = {"attention": Attention, "mixer": Mixer}
    make = own.get(network.model) if isinstance(network.model, str) else network.model
    if make is not None:
        torch.manual_seed(0)
        return make(source.shape, len(source.classes), **network.options)
    return models.build(
        str(network.model),
        seed=0,
        num_classes=len(source.classes),
        image_shape=source.shape,
        options=network.options,
    )


def load(name: str) -> tuple[nn.Module, data.Dataset, Network]:
    """Return a trained network with its data; train it if that was never done.

    Args:
        name: one of `NETWORKS`, or one of them and how it is hidden, joined by a plus sign
    """
    name, _, how = name.partition("+")
    if how:
        model, source, network = load(name)
        return Hidden(model, how).eval(), source, replace(network, test_images=min(100, network.test_images))
    network, file = NETWORKS[name], CACHE / f"{name}.safetensors"
    source = data.load(network.data, validation=0)
    model = build(network, source)
    if not file.exists():
        train(name, model, source, network)
        CACHE.mkdir(exist_ok=True)
        save_file(model.state_dict(), file)
    model.load_state_dict(load_file(file))
    return model.eval(), source, network


def train(name: str, model: nn.Module, source: data.Dataset, network: Network) -> None:
    """Train by one cycle of the learning rate, batches of 128, crops and flips."""
    objective = network.objective(model, network.threat)
    plain = soar.objectives.Standard(model)
    rate, total = network.learning_rate, network.images // 128
    optimizer: torch.optim.Optimizer
    if network.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
    else:
        optimizer = torch.optim.SGD(
            model.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=total)
    augmentation = data.Augmentation()
    if network.augment:
        augmentation = data.Augmentation(crop_padding=4 if network.data == "cifar10" else 2, flip=True)
    step, epoch, began, running = 0, 0, time.process_time(), 0.0
    model.train()
    while step < total:
        for batch in data.training_batches(
            source.train, batch_size=128, seed=0, epoch=epoch, augmentation=augmentation
        ):
            x, y, index = batch.on()
            loss = (plain if 128 * step < network.warm_up else objective)(x, y, index).loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
            step, running = step + 1, 0.95 * running + 0.05 * loss.item()
            if step % 50 == 0:
                seconds = time.process_time() - began
                print(f"{name}: {step} of {total}, loss {running:.3f}, {seconds:.0f} s", flush=True)
            if step == total:
                break
        epoch += 1


def main() -> None:
    """Train the networks that are asked for, and print what they withstand."""
    torch.set_num_threads(1)
    for name in sys.argv[1:] or NETWORKS:
        model, source, network = load(name)
        test = source.test.first(500)
        found = soar.evaluate(model, (test.images, test.labels), network.threat, attacks="quick", check=False)
        print(f"{name}: clean {found.accuracy('clean'):.3f}, robust {found.worst_case:.3f}", flush=True)


if __name__ == "__main__":
    main()
