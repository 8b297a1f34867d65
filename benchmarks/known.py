"""Networks of which is known whether they hide their gradients: one set to calibrate on, one to judge by.

The sets share no network and no trick. Everything is small and trained on the bundled sample of
Fashion-MNIST; weights are kept in benchmarks/.cache/known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import hiding
import networks
from networks import Network, pgd
from soar import data, objectives
from soar.threat import L2, Linf, Threat

SAMPLE = "fashion-mnist-sample"
Shape = tuple[int, ...]


@cache
def source(name: str) -> data.Dataset:
    """Return the bundled sample, or a variant of it.

    Args:
        name: "all", "imbalanced", or "levels-N" for pixels rounded to N levels, from where a threshold is;
            with a colon and the numbers of the classes that are kept, such as "all:0,6"
    """
    found = data.load(SAMPLE, validation=0)
    kind, _, kept = name.partition(":")
    classes = [int(number) for number in kept.split(",")] if kept else list(range(len(found.classes)))

    def chosen(split: data.Split, *, is_train: bool) -> data.Split:
        rows = torch.isin(split.labels, torch.tensor(classes))
        if kind == "imbalanced" and is_train:
            shares = 0.7 ** torch.arange(len(found.classes))
            counts = torch.zeros_like(split.labels)
            for number in classes:
                own = split.labels == number
                counts[own] = torch.arange(int(own.sum()))
            rows &= counts < shares[split.labels] * split.labels.bincount()[split.labels]
        images = split.images
        if kind.startswith("levels"):
            steps = int(kind.removeprefix("levels-")) - 1
            images = (255 * (steps * (images / 255)).round() / steps).round().to(torch.uint8)
        labels = torch.tensor([classes.index(number) if number in classes else 0 for number in range(10)])
        return data.Split(images[rows], labels[split.labels[rows]], split.indices[rows])

    return replace(
        found,
        name=name,
        classes=tuple(found.classes[number] for number in classes),
        train=chosen(found.train, is_train=True),
        test=chosen(found.test, is_train=False),
    )


def some_images() -> Tensor:
    """Return training images that a trick is made of."""
    return data.to_unit(source("all").train.first(2000).images)


def small(
    shape: Shape,
    classes: int,
    *,
    width: int = 16,
    first: Callable[[], nn.Module] | None = None,
    channels: int = 1,
    activation: Callable[[], nn.Module] = nn.ReLU,
    pool: bool = False,
) -> nn.Module:
    """Return a small convolutional network.

    Args:
        shape: of an image
        classes: how many there are
        width: of the first layer
        first: what stands before it
        channels: how many that returns
        activation: between the layers
        pool: whether averages are pooled, in place of strides
    """
    height, columns = shape[1] // 4, shape[2] // 4
    stride = 1 if pool else 2

    def halve() -> nn.Module:
        return nn.AvgPool2d(2) if pool else nn.Identity()

    return nn.Sequential(
        nn.Identity() if first is None else first(),
        nn.Conv2d(channels, width, 5, stride, 2),
        halve(),
        activation(),
        nn.Conv2d(width, 2 * width, 3, stride, 1),
        halve(),
        activation(),
        nn.Flatten(),
        nn.Linear(2 * width * height * columns, 64),
        activation(),
        nn.Linear(64, classes),
    )


def linear(shape: Shape, classes: int) -> nn.Module:
    """Return a linear classifier."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))


def mlp(
    shape: Shape, classes: int, *, width: int = 128, activation: Callable[[], nn.Module] = nn.SiLU
) -> nn.Module:
    """Return two hidden layers."""
    pixels = shape[0] * shape[1] * shape[2]
    hidden = (nn.Linear(pixels, width), activation(), nn.Linear(width, width), activation())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, classes))


def standard(model: nn.Module, threat: Threat) -> objectives.Objective:  # noqa: ARG001
    """Train without attacks."""
    return objectives.Standard(model)


def smoothed(model: nn.Module, threat: Threat) -> objectives.Objective:
    """Train with smoothed labels."""
    objective = standard(model, threat)
    objective.label_smoothing = 0.2
    return objective


def distilled(model: nn.Module, threat: Threat) -> objectives.Objective:
    """Train at a temperature of 40, as defensive distillation does."""
    return standard(nn.Sequential(model, Divided(40.0)), threat)


def paper(model: nn.Module, threat: Threat) -> objectives.Objective:
    """Train with SOAR from the images, in the settings of the paper."""
    return objectives.SOAR(
        model,
        threat,
        init="zero",
        penalty_eps_fraction=1.0,
        hvp="finite-difference",
        fd_step=0.01,
        loss_scale=1.0,
        max_norm=10.0,
    )


def by(make: Callable[..., objectives.Objective], **options: Any) -> Callable[..., objectives.Objective]:
    """Train with an objective and its options."""
    return lambda model, threat: make(model, threat, **options)


class Divided(nn.Module):
    """Divide by a number; nothing is hidden.

    Args:
        number: above 0
    """

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Tensor) -> Tensor:
        """Divide."""
        return x / self.number


class Sum(nn.Module):
    """The sum of the logits of several networks.

    Args:
        members: the networks
    """

    def __init__(self, *members: nn.Module) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        """Add the logits."""
        return torch.stack([member(x) for member in self.members]).sum(dim=0)


def _trained(
    threat: Threat,
    images: int,
    model: str | Callable[..., nn.Module] = small,
    options: dict[str, Any] | None = None,
    objective: Callable[..., objectives.Objective] = standard,
    of: str = "all",
    rate: float = 2e-3,
    **others: Any,
) -> Network:
    return Network(of, threat, model, options or {}, objective, images, rate, "adamw", **others)


_CNN = {"width": 8, "hidden": 64}
_NARROW = {"width": 32, "depth": 2}
TRAINED = {
    # of the calibration set
    "cnn": _trained(Linf("0.03"), 40_000, "cnn6", _CNN),
    "cnn-pgd": _trained(Linf("0.1"), 60_000, "cnn6", _CNN, pgd(3), warm_up=10_000),
    "mlp-trades": _trained(Linf("0.1"), 100_000, mlp, {}, by(objectives.TRADES, steps=3)),
    "confident": _trained(Linf("2/255"), 250_000, augment=False),
    "two-classes": _trained(Linf("0.05"), 30_000, "cnn6", _CNN, of="all:0,6"),
    "smoothed": _trained(Linf("0.02"), 60_000, objective=smoothed),
    "cnn-l2": _trained(L2("1"), 50_000, "cnn6", _CNN, pgd(3), warm_up=10_000),
    "vit": _trained(Linf("2/255"), 40_000, "attention", _NARROW),
    "resnet-bn-pgd": _trained(Linf("0.06"), 20_000, "resnet10", {"width": 4, "norm": "batch"}, pgd(2)),
    "linear": _trained(Linf("0.05"), 60_000, linear),
    "soar-paper": _trained(Linf("0.1"), 150_000, objective=paper, warm_up=60_000),
    "thermometer": _trained(
        Linf("0.1"), 60_000, options={"first": lambda: hiding.Thermometer(10), "channels": 10}
    ),
    "staircase": _trained(Linf("0.06"), 60_000, options={"activation": lambda: hiding.Staircase(4)}),
    "steep": _trained(Linf("0.06"), 80_000, options={"activation": lambda: hiding.Steep(400.0)}),
    "black-or-white": _trained(Linf("0.1"), 40_000, of="levels-2"),
    # of the fresh set
    "group-norm-gelu": _trained(
        Linf("0.02"), 25_000, "cnn8", {"width": 8, "hidden": 32, "norm": "group", "activation": "gelu"}
    ),
    "nfgsm": _trained(Linf("0.1"), 50_000, "cnn6", _CNN, by(objectives.NFGSM), warm_up=10_000),
    "imbalanced": _trained(Linf("0.03"), 60_000, options={"width": 12}, of="imbalanced"),
    "mixer": _trained(Linf("0.05"), 40_000, "mixer", _NARROW, pgd(2), warm_up=10_000),
    "pooled-trades": _trained(
        Linf("0.1"), 30_000, options={"pool": True, "width": 8}, objective=by(objectives.TRADES, steps=3)
    ),
    "three-classes": _trained(Linf("0.3"), 50_000, objective=pgd(5), of="all:1,5,8", warm_up=10_000),
    "silu-l2": _trained(
        L2("0.5"), 8_000, "wide_resnet", {"depth": 10, "widen_factor": 1, "activation": "silu"}, pgd(2)
    ),
    "mlp-confident": _trained(
        Linf("0.02"), 250_000, mlp, {"activation": nn.ReLU}, of="all:2,4", augment=False
    ),
    "brief": _trained(Linf("0.02"), 3_840, options={"width": 24}),
    "mart": _trained(
        Linf("0.06"), 80_000, options={"activation": nn.Softplus}, objective=by(objectives.MART, steps=3)
    ),
    "member-8": _trained(Linf("0.06"), 50_000, options={"width": 8}, objective=pgd(2)),
    "member-12": _trained(Linf("0.06"), 50_000, options={"width": 12, "pool": True}, objective=pgd(2)),
    "tanh": _trained(Linf("0.06"), 50_000, options={"activation": nn.Tanh, "width": 12}),
    "lookup": _trained(Linf("0.06"), 60_000, options={"first": lambda: hiding.Lookup(32, 4), "channels": 4}),
    "codebook": _trained(Linf("0.1"), 40_000, options={"first": lambda: hiding.Codebook(some_images(), 128)}),
    "winners": _trained(Linf("0.04"), 80_000, options={"activation": lambda: hiding.Winners(0.1)}),
    "distilled": _trained(Linf("0.05"), 80_000, objective=distilled),
    "three-levels": _trained(Linf("0.2"), 40_000, of="levels-3:0,3,7"),
}
"""how networks are trained, by name; tricks are open while they are"""


@dataclass(frozen=True)
class Known:
    """A network of which is known whether it hides its gradients.

    Args:
        name: what it is
        kind: what it was made to be: masked, sound, random or inconclusive; what it is, is measured
        bases: the trained networks that it is made of; the first one decides the data
        make: makes it of these
        threat: by default that of the first of them
    """

    name: str
    kind: str
    bases: tuple[str, ...]
    make: Callable[..., nn.Module] = lambda network: network
    eps: Threat | None = None

    @property
    def threat(self) -> Threat:
        """What the adversary may do."""
        return self.eps or TRAINED[self.bases[0]].threat

    @property
    def test(self) -> data.Split:
        """The images it is tried on."""
        return source(TRAINED[self.bases[0]].data).test

    def model(self) -> nn.Module:
        """Return the network as it stands, after its training where that was never done."""
        return self.make(*(load(base) for base in self.bases)).eval()


def before(make: Callable[[], nn.Module]) -> Callable[[nn.Module], nn.Module]:
    """Put something before a network."""
    return lambda network: nn.Sequential(make(), network)


def behind(make: Callable[[], nn.Module]) -> Callable[[nn.Module], nn.Module]:
    """Put something behind a network."""
    return lambda network: nn.Sequential(network, make())


_CALIBRATION = (
    Known("CNN", "sound", ("cnn",)),
    Known("CNN, PGD", "sound", ("cnn-pgd",)),
    Known("CNN, PGD, logits x 5", "sound", ("cnn-pgd",), behind(lambda: Divided(1 / 5))),
    Known("MLP with SiLU, TRADES", "sound", ("mlp-trades",)),
    Known("CNN trained to confidence", "sound", ("confident",)),
    Known("CNN, two classes", "sound", ("two-classes",)),
    Known("CNN, smoothed labels", "sound", ("smoothed",)),
    Known("CNN, PGD, l2", "sound", ("cnn-l2",)),
    Known("vision transformer", "sound", ("vit",)),
    Known("ResNet with BatchNorm, PGD", "sound", ("resnet-bn-pgd",)),
    Known("linear", "sound", ("linear",)),
    Known("SOAR with a zero start", "sound", ("soar-paper",)),
    Known("pixels in 8 steps", "masked", ("cnn",), before(lambda: hiding.Rounded(8)), Linf("0.1")),
    Known(
        "principal components under no_grad",
        "masked",
        ("cnn",),
        before(lambda: hiding.Projected(some_images(), 150)),
        Linf("0.06"),
    ),
    Known("thermometer code", "masked", ("thermometer",)),
    Known("logits x 1000", "masked", ("cnn",), behind(lambda: hiding.Scaled(1000.0)), Linf("0.06")),
    Known(
        "clamped logarithms of probabilities",
        "masked",
        ("smoothed",),
        behind(lambda: hiding.Clamped(300.0, 1e-6)),
        Linf("0.04"),
    ),
    Known(
        "main network detached beside a linear one",
        "masked",
        ("cnn", "linear"),
        lambda network, decoy: hiding.Detached(network, decoy, 0.1),
        Linf("0.05"),
    ),
    Known("activations in steps", "masked", ("staircase",)),
    Known("steep sigmoids", "masked", ("steep",)),
    Known("reversed gradient", "masked", ("cnn-pgd",), before(hiding.Reversed)),
    Known("logits in steps", "masked", ("confident",), behind(lambda: hiding.Rounded(2)), Linf("0.03")),
    Known("noise", "random", ("cnn",), before(lambda: hiding.Noisy(0.1))),
    Known("pixels behind a threshold", "inconclusive", ("black-or-white",), before(hiding.Threshold)),
)
_FRESH = (
    Known("CNN with GroupNorm and GELU", "sound", ("group-norm-gelu",), eps=Linf("0.01")),
    Known("CNN, N-FGSM", "sound", ("nfgsm",)),
    Known("CNN, imbalanced classes", "sound", ("imbalanced",)),
    Known("mixer, PGD", "sound", ("mixer",)),
    Known("CNN with average pooling, TRADES", "sound", ("pooled-trades",)),
    Known("three classes, eps 0.3, PGD", "sound", ("three-classes",)),
    Known("WideResNet with SiLU, PGD, l2", "sound", ("silu-l2",)),
    Known("MLP trained to confidence, two classes", "sound", ("mlp-confident",)),
    Known("CNN after 30 steps", "sound", ("brief",)),
    Known("CNN with softplus, MART", "sound", ("mart",)),
    Known("sum of two networks, PGD", "sound", ("member-8", "member-12"), Sum),
    Known("CNN with tanh", "sound", ("tanh",), eps=Linf("0.01")),
    Known("TRADES, logits / 1000", "sound", ("pooled-trades",), behind(lambda: Divided(1000.0))),
    Known(
        "cosine transform in steps",
        "masked",
        ("group-norm-gelu",),
        before(lambda: hiding.Cosine(0.15)),
        Linf("0.06"),
    ),
    Known("gray levels looked up", "masked", ("lookup",)),
    Known("patches from a codebook", "masked", ("codebook",)),
    Known("winners take all", "masked", ("winners",)),
    Known("votes of labels", "masked", ("imbalanced",), hiding.Votes, Linf("0.06")),
    Known("defensive distillation", "masked", ("distilled",)),
    Known(
        "logarithm of the mean probability",
        "masked",
        ("tanh", "brief"),
        lambda *members: hiding.LogOfMean(*members, sharpness=1000.0),
        Linf("0.08"),
    ),
    Known("scrambled gradient", "masked", ("member-8",), before(hiding.Scrambled), Linf("0.1")),
    Known(
        "ripple on the pixels", "masked", ("tanh",), before(lambda: hiding.Ripple(0.01, 900.0)), Linf("0.05")
    ),
    Known(
        "median and gray levels", "masked", ("imbalanced",), before(lambda: hiding.Median(15)), Linf("0.1")
    ),
    Known("detector that detaches", "masked", ("nfgsm",), lambda network: hiding.Guarded(network, 0.01)),
    Known("random size and place", "random", ("mart",), before(lambda: hiding.Moved(6))),
    Known("pixels of three levels", "inconclusive", ("three-levels",), before(lambda: hiding.Nearest(3))),
)
SETS = {"calibration": _CALIBRATION, "fresh": _FRESH}


def load(name: str) -> nn.Module:
    """Return a trained network with its tricks hidden; train it if that was never done.

    Args:
        name: one of `TRAINED`
    """
    network, file = TRAINED[name], networks.CACHE / "known" / f"{name}.safetensors"
    images = source(network.data)
    model = networks.build(network, images)
    if not file.exists():
        for trick in hiding.tricks(model):
            trick.hides = False
        networks.train(name, model, images, network)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(model.state_dict(), file)
        for trick in hiding.tricks(model):
            trick.hides = True
    model.load_state_dict(load_file(file))
    return model.eval()
