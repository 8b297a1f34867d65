"""SOAR in a plain PyTorch loop: two new lines, everything else unchanged.

    python examples/plain_loop.py

The network, the loader, the optimizer and the loop are plain PyTorch. The same network is trained twice from
the same weights, once with the cross-entropy and once with SOAR. Then both are attacked.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import soar


def network() -> nn.Module:
    """Build a network that maps pixels in [0, 1] to logits; any will do."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )


def train(
    model: nn.Module, loader: DataLoader[tuple[Tensor, ...]], loss_of: Callable[..., Tensor], epochs: int
) -> None:
    """Run a standard training loop on the loss `loss_of(x, y)`."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for _ in range(epochs):
        for x, y in loader:
            loss = loss_of(x, y)
            optimizer.zero_grad()
            loss.backward()
            # Early in training the gradient of a penalty can be much larger than that of the loss.
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            schedule.step()


def main() -> None:
    """Train and attack the network with each loss, and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=3, help="epochs of each training run")
    parser.add_argument("--train-examples", type=int, default=9000, metavar="N")
    parser.add_argument("--examples", type=int, default=500, metavar="N", help="test images to attack")
    parser.add_argument("--eps", default="0.1", help="linf radius of the attack")
    arguments = parser.parse_args()

    data = soar.data.load("fashion-mnist-sample")  # 28 x 28 grayscale, ships with the package
    learned = data.train.first(arguments.train_examples)
    images, labels = soar.data.to_unit(learned.images), learned.labels
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True, drop_last=True)
    threat = soar.Linf(arguments.eps)

    plain = network()
    robust = copy.deepcopy(plain)
    objective = soar.objectives.SOAR(robust, threat)  # the first new line
    trainings = {
        "cross-entropy": (plain, lambda x, y: F.cross_entropy(plain(x), y)),
        "SOAR": (robust, lambda x, y: objective(x, y).loss),  # the second new line
    }
    print(f"{'training':<14}{'clean':>8}{'worst case':>12}{'95% interval':>16}{'CPU seconds':>13}")
    for name, (model, loss_of) in trainings.items():
        began = time.process_time()
        train(model, loader, loss_of, arguments.epochs)
        seconds = time.process_time() - began
        found = soar.evaluate(model, data.test.first(arguments.examples), threat, attacks="quick")
        low, high = found.interval("worst case")
        print(
            f"{name:<14}{found.accuracy('clean'):>8.1%}{found.worst_case:>12.1%}"
            f"{f'{low:.0%} to {high:.0%}':>16}{seconds:>13.0f}"
        )


if __name__ == "__main__":
    main()
