"""Arguments that nobody should pass and somebody will, with the few valid ones among them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from soar.attacks import FGSM, PGD, SimBA, Square
from soar.attacks.attack import Planned
from soar.errors import UserError
from soar.threat import L2, Linf

SHAPE, CLASSES, COUNT = (1, 3, 4), 3, 4


class Calls:
    """Counts calls, and lets no exception through but a `UserError` of one line."""

    def __init__(self) -> None:
        self.made = self.refused = 0

    def __call__(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.made += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*arguments, **named)
        except UserError as error:
            text = str(error)
        assert "\n" not in text and len(text) < 1000, "one line that can be read"
        self.refused += 1
        return None


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("not even a name")


class ModelOutput(dict[str, Tensor]):
    """What models of another library return."""


# Anything, for an argument of any kind. Whole numbers are either small or too large for any computer.
ANYTHING: list[Any] = [
    None, True, False, -1, 0, 1, 2, 1.5, -0.5, 0.5, float("nan"), float("inf"), -float("inf"), 10**30,
    10**5000, -(10**5000), 1e308, 5e-324, "", "4", "0.1", "8/255", "pgd", "linf", "nan", "1e-999999999",
    "1e9999999",
    "1/0", "9" * 5000, "\x00", "é" * 300, "a\nb", b"1", [], [1], ["pgd"], {}, {"a": 1}, (), (1, 2), {1, 2},
    1j, Fraction(1, 3), Fraction(10**400), object(), Unprintable(), int, print, Path("nowhere"),
    np.float64(0.5), np.int64(2), np.array([1, 2]),
    torch.tensor(1), torch.tensor([0.5, 2.0]), torch.zeros(2, 2),
    nn.Flatten(),
    Linf("0.1"), PGD(steps=1), range(3), slice(None), NotImplemented, ...,
]  # fmt: skip


class Net(nn.Module):
    """A small valid model, whose output or input may be changed."""

    def __init__(self, change: Callable[[Tensor], Any] = lambda z: z) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Softplus(), nn.Linear(8, CLASSES))
        self.change = change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.layers(x))


class Grumpy(Net):
    """Raises what no one expects."""

    def forward(self, x: Tensor) -> Any:
        raise {True: LookupError, False: ZeroDivisionError}[len(x) > 2]("not\ntoday")


class Sleepy(Net):
    """Takes its time in training mode, and has dropout there."""

    def forward(self, x: Tensor) -> Any:
        if self.training:
            time.sleep(0.001)
        return nn.functional.dropout(self.layers(x), 0.5, self.training)


class Scalar(nn.Module):
    """Without any weight, and its forward pass takes no images."""

    def forward(self) -> Tensor:
        return torch.zeros(1)


VALID_MODELS: list[Any] = [
    Net(),
    Sleepy().train(),
    Net(lambda z: z.double()),
    Net(lambda z: z.bfloat16()),
    Net(lambda z: 1e6 * z),
    Net().double(),
]
WRONG_MODELS: list[Any] = [
    Grumpy(),
    Scalar(),
    nn.Module(),
    Net(lambda z: None),
    Net(lambda z: (z, z)),
    Net(lambda z: ModelOutput(logits=z)),
    Net(lambda z: [z]),
    Net(lambda z: z[0]),
    Net(lambda z: z.sum()),
    Net(lambda z: z[:, :1]),
    Net(lambda z: z[:, :0]),
    Net(lambda z: z[:1]),
    Net(lambda z: z[:, :, None]),
    Net(lambda z: z * torch.nan),
    Net(lambda z: z.long()),
    Net(lambda z: z > 0),
    Net(lambda z: z.to(torch.complex64)),
    Net(lambda z: z.to_sparse()),
    Net(lambda z: z.to("meta")),
    Net(lambda z: z.detach().numpy()),
    Net().half(),
    Net().bfloat16(),
    Net().to("meta"),
    nn.Conv2d(3, 2, 1),
    nn.Identity(),
    nn.Flatten(),
    nn.Embedding(3, 3),
    nn.ModuleList([nn.Flatten()]),
]
X = torch.linspace(0, 1, COUNT * 12).reshape(COUNT, *SHAPE)
Y = torch.tensor([0, 1, 2, 0])
IMAGES: list[Any] = [
    X,
    X.clone().requires_grad_(),
    X.double(),
    X.to(memory_format=torch.channels_last),
    X.expand(COUNT, 1, 3, 4),
    X.half(),
    X.bfloat16(),
    (255 * X).to(torch.uint8),
    (255 * X).long(),
    X > 0.5,
    X.to(torch.complex64),
    255 * X,
    -X,
    X * torch.nan,
    X / 0,
    X[:0],
    X[:2],
    X[0],
    X[0, 0],
    X[0, 0, 0],
    X[0, 0, 0, 0],
    X[:, :, :0],
    X.repeat(1, 3, 1, 1),
    X.repeat(1, 1, 2, 1),
    X[..., None],
    X.flatten(1),
    X.to("meta"),
    X.to_sparse(),
    X.numpy(),
    X.tolist(),
    X.numpy().astype(object),
    np.array(["a"] * COUNT),
    None,
    "images",
    5,
]
LABELS: list[Any] = [
    Y,
    Y.clone(),
    Y + 1,
    Y - 1,
    Y * 10**12,
    Y.int(),
    Y.float(),
    Y.bool(),
    Y.to(torch.uint8),
    Y[:0],
    Y[:2],
    Y[:, None],
    Y[0],
    Y.to("meta"),
    Y.to_sparse(),
    nn.functional.one_hot(Y),
    Y.numpy(),
    Y.tolist(),
    np.array(["a"] * COUNT),
    None,
    "labels",
    5,
]
INDICES: list[Any] = [
    None,
    torch.arange(COUNT),
    torch.arange(COUNT) - 2,
    torch.arange(COUNT).int(),
    torch.arange(COUNT).float(),
    torch.arange(COUNT + 1),
    torch.arange(COUNT)[:, None],
    torch.arange(COUNT).to("meta"),
    torch.arange(COUNT).to_sparse(),
    torch.tensor(3),
    [0, 1, 2, 3],
    np.arange(COUNT),
    "0",
    5,
]
STEPS: list[Any] = [None, 0, 7, 2**62, 10**30, -1, 1.5, "3", True, torch.tensor(1), np.int64(3), [1]]
SEEDS: list[Any] = [
    0,
    1,
    -5,
    2**62,
    10**30,
    10**5000,
    None,
    1.0,
    "0",
    True,
    np.int64(3),
    torch.tensor(1),
    [1],
]
BATCH_SIZES: list[Any] = [
    1,
    3,
    128,
    2**62,
    0,
    -1,
    10**30,
    "4",
    1.5,
    True,
    None,
    np.int64(2),
    torch.tensor(2),
    [4],
]
THREATS: list[Any] = [
    Linf("0.1"),
    L2("0.5"),
    Linf(1),
    L2(1e-20),
    L2(1e20),
    None,
    0.1,
    "linf",
    Linf,
    object(),
    PGD(),
]
NAMES: list[Any] = ["model", "", "a\nb", "\x00", "é" * 300, None, 5, b"x", ["x"], Unprintable()]
CLASS_NAMES: list[Any] = [
    (), tuple("abc"), list("abc"), tuple("abcd"), tuple("ab"), "abc", (1, 2, 3), None, 5, {"a": 1},
    (None,) * 3,
]  # fmt: skip
ATTACKS: list[Any] = [
    "fgsm", "pgd:steps=2", "square:queries=3", "simba:queries=3", "fab:steps=2,targets=2", "apgd:steps=2",
    FGSM(), PGD(steps=1), [PGD(steps=2), "fgsm"], Planned(FGSM(), survivors_only=True),
    "rand:steps=2,samples=2", Square(queries=2), SimBA(queries=2, basis="dct"),
    PGD(steps=1, loss=lambda z, y: z.sum(dim=1)),
    PGD(steps=1, loss=lambda z, y: z.sum()), PGD(steps=1, loss=cast(Any, lambda z, y: None)),
    "", "nothing", "pgd:steps", "pgd:steps=", "pgd:steps=-1", "pgd:steps=1e400", "pgd:=1", "pgd:step=1", ":",
    "pgd:,", "transfer", "transfer:source=nowhere", [], [[]], ["fgsm", "fgsm"], PGD, [PGD], None, 5, object(),
    {}, (), {"pgd"}, b"pgd", ["fgsm", None], nn.Flatten(),
]  # fmt: skip


class Items(Dataset[Any]):
    """A dataset of given items."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


class Failing(Dataset[Any]):
    def __getitem__(self, place: int) -> Any:
        raise OSError(5, "Input/output error")

    def __len__(self) -> int:
        return 3


def data_sets() -> list[Any]:
    """Data of every kind, of which few are valid."""
    pairs = [
        (X, Y),
        (X.numpy(), Y.numpy()),
        (X, Y.numpy()),
        *((x, Y) for x in IMAGES),
        *((X, y) for y in LABELS),
    ]
    loaders: list[Any] = [
        TensorDataset(X, Y),
        Stream(),
        DataLoader(TensorDataset(X, Y), batch_size=3),
        DataLoader(TensorDataset(X, Y), batch_size=None),
        DataLoader(TensorDataset(X, Y), shuffle=True),
        DataLoader(Items([(torch.zeros(1, 3, 4 + k), 0) for k in range(2)]), batch_size=1),
        DataLoader(Items([(torch.zeros(1, 3, 4 + k), 0) for k in range(2)]), batch_size=2),
        DataLoader(Items([{"x": X[0], "y": 0}]), batch_size=1),
        DataLoader(Items(["text", "more"]), batch_size=2),
        DataLoader(Items([("text", 0)] * 2), batch_size=2),
        DataLoader(Items([(X[0], "cat")] * 2), batch_size=2),
        DataLoader(Items([(X[0], None)] * 2), batch_size=2),
        DataLoader(Items([(X[0], 0.5)] * 2), batch_size=2),
        DataLoader(Items([(X[0], Y)] * 2), batch_size=2),
        DataLoader(Items([]), batch_size=2),
        Items([X[0]]),
        Items([None]),
        Failing(),
        Dataset(),
    ]
    return [*pairs, *loaders, X, Y, [X, Y], (X,), (X, Y, Y), (), None, "cifar10", 5, nn.Flatten(), iter([])]


def paths(folder: Path) -> list[Any]:
    """Places that are no file, or not the right one."""
    (folder / "folder").mkdir(exist_ok=True)
    texts = {
        "empty": "",
        "list": "[]",
        "format": '{"format": 2}',
        "deep": "[" * 10**5,
        "number": '{"format": 1e999}',
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "bytes").write_bytes(os.urandom(64))
    found = [folder / name for name in ("folder", "nowhere", "nowhere/deeper", "bytes", *texts)]
    return [
        *found,
        *map(str, found),
        folder / ("x" * 300),
        "\x00",
        "",
        ".",
        None,
        5,
        b"x",
        [],
        object(),
        Unprintable(),
    ]
