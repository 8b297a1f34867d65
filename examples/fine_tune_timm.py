"""Fine-tune a pretrained timm network on a folder of images for adversarial robustness.

    pip install timm
    python examples/fine_tune_timm.py

timm downloads the pretrained weights on first use; `--weights FILE` uses a local file instead. Without
`--folder` a small folder is created from four classes of the bundled data. The network is fine-tuned twice
from the same weights, with the cross-entropy and with SOAR, and both are attacked.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import timm
import torch
from torch import nn

import soar
from soar.models.layers import FixedNormalization, Statistics
from soar.objectives import OBJECTIVES
from soar.threat import Threat

CLASSES = (2, 4, 6, 9)  # pullover, coat, shirt, ankle boot


def write_folder(folder: Path, examples: int) -> None:
    """Write images to `folder/train/<class>/<number>.png` and `folder/test/<class>/<number>.png`."""
    from PIL import Image

    data = soar.data.load("fashion-mnist-sample", validation=0)
    for part, count in (("train", examples), ("test", examples // 4)):
        split = getattr(data, part)
        for label in CLASSES:
            place = folder / part / data.classes[label].replace("/", "-")
            place.mkdir(parents=True)
            rows = (split.labels == label).nonzero()[:count, 0]
            for row in rows.tolist():
                image = Image.fromarray(split.images[row, 0].numpy()).resize((32, 32))
                image.convert("RGB").save(place / f"{row}.png")


def pretrained(name: str, classes: int, weights: Path | None) -> nn.Module:
    """Load a timm network with a new head, for pixels in [0, 1].

    Args:
        name: a name from `timm.list_models(pretrained=True)`
        classes: number of classes of the new head
        weights: local file instead of the download; its head is ignored if the number of classes differs
    """
    overlay = {} if weights is None else {"file": str(weights)}
    network = timm.create_model(name, pretrained=True, num_classes=classes, pretrained_cfg_overlay=overlay)
    # timm's networks expect normalized inputs; as a layer, normalization is part of the attacked model.
    mean, std = network.pretrained_cfg["mean"], network.pretrained_cfg["std"]
    return nn.Sequential(FixedNormalization(Statistics(tuple(mean), tuple(std)), len(mean)), network)


def fine_tune(
    model: nn.Module, name: str, threat: Threat, split: soar.data.Split, epochs: int, lr: float
) -> None:
    """Train all layers at a small learning rate, with random crops and flips."""
    objective = OBJECTIVES.build(name, {}, model, threat)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    batches = epochs * soar.data.batches_per_epoch(split, 32)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, batches)
    varied = soar.data.Augmentation(crop_padding=2, flip=True)
    for epoch in range(epochs):
        for batch in soar.data.training_batches(
            split, batch_size=32, seed=0, epoch=epoch, augmentation=varied
        ):
            x, y, index = batch.on()
            optimizer.zero_grad()
            objective(x, y, index).loss.backward()
            optimizer.step()
            schedule.step()


def main() -> None:
    """Fine-tune with each objective and attack the networks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # A tiny network without BatchNorm, which would couple the examples of a batch.
    parser.add_argument("--name", default="test_convnext.r160_in1k", help="name of a timm network")
    parser.add_argument("--weights", type=Path, help="local file instead of timm's download")
    parser.add_argument("--folder", type=Path, help="folder with train/<class>/*.png and test/<class>/*.png")
    parser.add_argument("--images", type=int, default=200, metavar="N", help="per class, without --folder")
    parser.add_argument(
        "--objectives", nargs="+", default=["standard", "soar"], help="see soar list objectives"
    )
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--eps", default="8/255")
    parser.add_argument("--examples", type=int, default=200, metavar="N", help="test images to attack")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if arguments.folder is None:
            write_folder(folder, arguments.images)
        data = soar.data.load(f"folder:{folder}")
    test = data.test.first(arguments.examples)
    threat = soar.Linf(arguments.eps)
    print(f"{len(data.train)} images to train on, {len(data.validation)} held out: {', '.join(data.classes)}")
    for name in arguments.objectives:
        torch.manual_seed(0)
        model = pretrained(arguments.name, len(data.classes), arguments.weights)
        fine_tune(model, name, threat, data.train, arguments.epochs, arguments.lr)
        found = soar.evaluate(model, test, threat, "quick")
        low, high = found.interval("worst case")
        clean = f"clean {found.accuracy('clean'):.1%}"
        print(f"{name}: {clean}, worst case {found.worst_case:.1%} ({low:.0%} to {high:.0%})")


if __name__ == "__main__":
    main()
