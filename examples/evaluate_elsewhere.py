"""Evaluate a model that was trained elsewhere, from a function that builds it and a file with its weights.

    python examples/evaluate_elsewhere.py

`build` is the function you write. `their_training` stands for a third-party training script that does not use
this package: it feeds the network normalized pixels and saves a dictionary whose keys have the prefix of a
data-parallel wrapper. The last printed line is the equivalent command; run it in the folder of this file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import soar
from soar.models.external import load_external_weights

MEAN, STD = 0.286, 0.353
"""normalization of the third-party training script"""


class TheirNetwork(nn.Module):
    """The network as published: it expects normalized pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 5, stride=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.head(self.features(x).flatten(1))
        return logits


class Standardized(TheirNetwork):
    """The same network for pixels in [0, 1], so that eps is in pixel units; parameter names are unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize, then return the logits."""
        return super().forward((x - MEAN) / STD)


def build() -> nn.Module:
    """Build the model; `soar evaluate --model evaluate_elsewhere:build` calls this function."""
    return Standardized()


def their_training(path: Path, examples: int) -> None:
    """Train for one epoch and save the weights, as a third-party script would."""
    torch.manual_seed(0)
    split = soar.data.load("fashion-mnist-sample").train.first(examples)
    inputs = (split.images / 255 - MEAN) / STD
    model = TheirNetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for rows in torch.randperm(len(split)).split(64):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[rows]), split.labels[rows]).backward()
        optimizer.step()
    tensors = {f"module.{name}": value for name, value in model.state_dict().items()}
    torch.save({"epoch": 1, "state_dict": tensors}, path)


def main() -> None:
    """Evaluate the model at several radii, then print the equivalent command for one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--weights", type=Path, default=Path("elsewhere.pt"), help="created if it does not exist"
    )
    parser.add_argument("--eps", nargs="+", default=["2/255", "8/255", "0.1"])
    parser.add_argument("--attacks", nargs="+", default=["quick"], help="standard is AutoAttack")
    parser.add_argument("--examples", type=int, default=500, metavar="N", help="test images to attack")
    parser.add_argument("--train-examples", type=int, default=9000, metavar="N")
    arguments = parser.parse_args()

    if not arguments.weights.exists():
        their_training(arguments.weights, arguments.train_examples)
    model = build()
    load_external_weights(model, arguments.weights)  # loads tensors only; nothing in the file is executed

    test = soar.data.load("fashion-mnist-sample").test.first(arguments.examples)
    for eps in arguments.eps:
        found = soar.evaluate(model, test, soar.Linf(eps), arguments.attacks)
        low, high = found.interval("worst case")
        shown = ", ".join(f"{name} {found.accuracy(name):.1%}" for name in found.names)
        print(f"linf {eps}: {shown} ({low:.0%} to {high:.0%})")
    print(
        f"soar evaluate --model evaluate_elsewhere:build --weights {arguments.weights}"
        f" --data fashion-mnist-sample --eps {arguments.eps[-1]} --attacks {' '.join(arguments.attacks)}"
    )


if __name__ == "__main__":
    main()
