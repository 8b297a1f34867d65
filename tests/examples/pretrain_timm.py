"""Stand in for a download: train a timm network on the bundled classes that the example does not use.

python tests/examples/pretrain_timm.py test_convnext weights.safetensors
"""

from __future__ import annotations

import argparse
import importlib
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import soar

OTHERS = (0, 1, 3, 5, 7, 8)


def main() -> None:
    """Train with the cross-entropy and save the network's own tensors, for ten classes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("output", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, help="an epoch")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    network = importlib.import_module("timm").create_model(arguments.name, num_classes=10)
    mean, std = network.pretrained_cfg["mean"][0], network.pretrained_cfg["std"][0]
    train = soar.data.load("fashion-mnist-sample").train
    train = train.subset(torch.isin(train.labels, torch.tensor(OTHERS)).nonzero()[:, 0])
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for epoch in range(arguments.epochs):
        batches = soar.data.training_batches(
            train, batch_size=64, seed=0, epoch=epoch, augmentation=soar.data.Augmentation()
        )
        for batch in islice(batches, arguments.batches):
            x, y, _ = batch.on()
            larger = F.interpolate(x, size=32).expand(-1, 3, -1, -1)
            optimizer.zero_grad()
            F.cross_entropy(network((larger - mean) / std), y).backward()
            optimizer.step()
    save_file(network.state_dict(), arguments.output)


if __name__ == "__main__":
    main()
