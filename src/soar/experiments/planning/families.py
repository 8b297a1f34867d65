"""Methods of training and families of networks: where their recipes differ from the shipped ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Fields = Mapping[str, Any]

_BETAS = ("0.1", "0.5", "1", "3", "5", "7", "9", "11", "13", "15")
SWEEPS = (
    ("trades", "beta", _BETAS),
    ("mart", "beta", _BETAS),
    ("mma", "margin", ("12", "20", "32", "48", "60", "72")),
)
"""methods that the paper sweeps, what, and over which values; margins are in units of 1/255"""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way of training.

    Args:
        title: what the paper calls it
        recipe: the middle of the shipped recipe's name: cifar10-RECIPE, and cifar10-RECIPE-small
        small: fields that differ from the shipped small recipe
        paper: fields that differ from the shipped recipe of the paper's size
        both: fields that differ from either
        is_sweep: whether it is one of many trainings that differ in one number, and so is shorter
    """

    title: str
    recipe: str
    small: Fields = field(default_factory=dict)
    paper: Fields = field(default_factory=dict)
    both: Fields = field(default_factory=dict)
    is_sweep: bool = False


_L2 = {"threat.norm": "l2", "threat.eps": "1.74", "objective.step_size": "0.44"}
_TEN_STEPS = {"objective.steps": 10}
_BETA_9 = {"objective.beta": 9, **_TEN_STEPS}
_SMALL_SOAR = {"objective.step": 0.5, "objective.scale": 0.015625}
_PAPER_SOAR = {
    "objective.name": "soar",
    "objective.product": "difference",
    "objective.step": 0.01,
    "objective.scale": 1.0,
    "objective.clamp": 10.0,
}

METHODS: dict[str, Method] = {
    "standard": Method(title="Standard", recipe="standard"),
    "adv": Method(title="ADV", recipe="adversarial", small=_TEN_STEPS),
    "adv-l2": Method(title="ADV, l2", recipe="adversarial", small=_TEN_STEPS, both=_L2),
    "trades": Method(title="TRADES", recipe="trades", small=_BETA_9),
    "trades-l2": Method(title="TRADES, l2", recipe="trades", small=_BETA_9, both=_L2),
    "mart": Method(title="MART", recipe="mart", small=_BETA_9),
    "mma": Method(title="MMA", recipe="mma", small={"objective.max_margin": "32/255"}),
    "foar": Method(title="FOAR", recipe="foar"),
    "foar-zero": Method(title="FOAR, zero start", recipe="foar", both={"objective.start": "zero"}),
    "foar-rand": Method(title="FOAR, random start", recipe="foar", both={"objective.start": "random"}),
    "soar": Method(title="SOAR", recipe="soar", small={"objective.start": "pgd-1", **_SMALL_SOAR}),
    # Without a start the whole of eps is left for the penalty.
    "soar-zero": Method(
        title="SOAR, zero start",
        recipe="soar",
        small=_SMALL_SOAR,
        paper=_PAPER_SOAR,
        both={"objective.start": "zero", "objective.penalty_share": 1.0},
    ),
    "soar-rand": Method(
        title="SOAR, random start",
        recipe="soar",
        small=_SMALL_SOAR,
        paper={**_PAPER_SOAR, "objective.start_share": 0.5, "objective.penalty_share": 0.5},
        both={"objective.start": "random"},
    ),
    "cure": Method(title="CURE", recipe="cure"),
    "llr": Method(title="LLR", recipe="llr"),
}

CONTINUES = ("foar", "foar-zero", "foar-rand", "soar", "soar-zero", "soar-rand", "cure")
"""methods that begin with an undefended network in the paper too; at small scale all do"""

FAMILIES = {
    "": "",
    "svhn": "SVHN",
    "cnn6": "CNN6",
    "cnn8": "CNN8",
    "resnet18": "ResNet-18",
    "wide": "WideResNet",
    "wrn28": "WideResNet",
    "thin": "WideResNet",
}
"""how titles name what differs from the ResNet-10 on CIFAR-10; thin is a WideResNet of the scale's size"""

ALWAYS_FULL = ("wide", "wrn28")
"""families that have the paper's size at every scale"""


def method_of(name: str) -> Method | None:
    """Give a method, one with a number in its name included; None where there is none.

    >>> method_of("mma-margin-20").small
    {'objective.max_margin': '20/255'}
    """
    if name in METHODS:
        return METHODS[name]
    parts = re.fullmatch(r"(trades|mart)-(beta)-(\d+(?:\.\d+)?)|(mma)-(margin)-(\d+)", name)
    if parts is None:
        return None
    method, what, text = (part for part in parts.groups() if part is not None)
    plain = METHODS[method]
    number: Any = f"{text}/255" if what == "margin" else float(text) if "." in text else int(text)
    fields = {"objective.max_margin" if what == "margin" else "objective.beta": number}
    return Method(
        title=f"{plain.title}, {what} {text}",
        recipe=plain.recipe,
        small={**plain.small, **fields},
        paper=fields,
        is_sweep=True,
    )


def family_fields(family: str, method: Method, *, full: bool) -> Fields:
    """Give the fields that a family of networks changes.

    At small scale every network has a quarter of its channels, so that their order stays that of the paper.

    Args:
        family: one of FAMILIES
        method: for WideResNets, of which the paper has three
        full: whether networks have the paper's size
    """
    if family == "svhn":
        return {"data.name": "svhn"} if full else {"data.name": "svhn", "model.input_normalization": "svhn"}
    if family in ("cnn6", "cnn8"):
        channels = {"cnn6": (8, 128), "cnn8": (16, 64)}[family]
        narrow = {"model.width": channels[0], "model.hidden": channels[1], "model.he_init": True}
        return {"model.name": family} if full else {"model.name": family, **narrow}
    if family == "resnet18":
        return {"model.name": "resnet18"}
    if family == "thin" and not full:
        return _wide(10, 2, "cifar10")
    if family == "wrn28":
        return _wide(28, 10, "none")
    if family in ("wide", "thin"):
        sizes = {"mma": (28, 4, "per-image"), "adversarial": (34, 10, "per-image")}
        return _wide(*sizes.get(method.recipe, (34, 10, "none")))
    return {}


def _wide(depth: int, widen: int, normalization: str) -> Fields:
    return {
        "model.name": "wide_resnet",
        "model.depth": depth,
        "model.widen": widen,
        "model.input_normalization": normalization,
    }
