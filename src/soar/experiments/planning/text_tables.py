"""Two tables that the paper does not print: what a training step costs, and its theory in numbers."""

from __future__ import annotations

import math
from typing import Any

from soar.experiments.measuring.measurement import Measurement, RowPlan
from soar.experiments.planning.scales import Scale
from soar.paper.tables import TEXT, PaperRow, PaperTable

PASSES, TIME, RATIO = ("forward", "backward"), "minutes per epoch", "relative to ADV"

# Objectives as the bench takes them, with the settings of the paper.
_OBJECTIVES = {
    "Standard": "standard",
    "ADV": "adversarial:steps=10",
    "TRADES": "trades:steps=10",
    "MART": "mart:steps=10",
    "MMA": "mma:steps=10,bisections=10",
    "FOAR": "foar:start=zero",
    "SOAR": "soar:product=difference",
}
_MINUTES = {"ADV": "ADV_PGD10", "TRADES": "TRADES", "MART": "MART", "SOAR": "SOAR"}
_NETWORKS: dict[str, dict[str, Any]] = {
    "smoke": {"model": "resnet10", "options": {"width": 2}, "batch_size": 4, "repeats": 1},
    "small": {"model": "resnet10", "options": {"width": 16}, "batch_size": 128, "repeats": 3},
    "paper": {"model": "wide_resnet", "options": {"depth": 34, "widen": 10}, "batch_size": 32, "repeats": 3},
}


def cost_table() -> PaperTable:
    """Give what the paper's text says about passes, and minutes of an epoch with a WideResNet.

    >>> round(cost_table().row("SOAR").values["relative to ADV"], 2)
    1.39
    """
    minutes = TEXT.minutes_per_epoch_wideresnet
    passes = {**TEXT.passes_per_minibatch, "ADV": (11, 11)}
    rows = []
    for name in _OBJECTIVES:
        took = minutes.get(_MINUTES.get(name, ""))
        known = passes.get(name)
        forward, backward = known if isinstance(known, tuple) else (None, None)
        ratio = None if took is None else took / minutes["ADV_PGD10"]
        values = {PASSES[0]: forward, PASSES[1]: backward, TIME: took, RATIO: ratio}
        rows.append(PaperRow(name=name, values=values, std={}))
    return _table(
        "cost",
        "What a training step costs: passes of a mini-batch, FOAR's without a start, and the time of an"
        " epoch; the paper's is that of a WideResNet on its GPUs",
        "passes, minutes",
        (*PASSES, TIME, RATIO),
        rows,
        dataset="CIFAR-10",
    )


def cost_caution(scale: Scale) -> str:
    """Say how our times differ from the paper's; epochs and images attacked play no part in them.

    >>> from soar.experiments.planning.scales import SCALES
    >>> print(cost_caution(SCALES["small"]).partition(".")[0])
    Not the paper's experiment: resnet10 (width 16) in batches of 128 on one thread of a CPU
    """
    network = _NETWORKS[scale.name]
    options = ", ".join(f"{name} {value}" for name, value in network["options"].items())
    return (
        f"Not the paper's experiment: {network['model']} ({options}) in batches of {network['batch_size']} on"
        f" one thread of a CPU. Passes are exact. Times are medians of {network['repeats']}; those of a ratio"
        " are taken in turn and apart from the minutes, so trust the ratios more on a busy machine."
    )


def cost_rows(scale: Scale) -> tuple[RowPlan, ...]:
    """Give how the cost of every method is measured at a scale."""
    network = _NETWORKS[scale.name]
    return tuple(
        RowPlan(
            name=name,
            network=None,
            columns={
                column: Measurement("cost", {"objective": text, "what": column, **network})
                for column in (*PASSES, TIME, RATIO)
            },
        )
        for name, text in _OBJECTIVES.items()
    )


# The part of the theory, the row of its table and the column: what is asked, and what the paper says to it.
_GD = {"d": 3072, "fit": "gradient descent"}
_EPS = 8 / 255
_THEORY: tuple[tuple[str, dict[str, Any], float | None], ...] = (
    (
        "linear regression, d 3072: loss of gradient descent",
        {"part": "linear", "where": _GD, "column": "loss"},
        0.0,
    ),
    (
        "linear regression, d 3072: its loss under attack",
        {"part": "linear", "where": _GD, "column": "attacked"},
        (_EPS * 3072) ** 2 / math.pi,
    ),
    (
        "linear regression, d 3072: robust regularizer, loss under attack",
        {"part": "linear", "where": {"d": 3072, "fit": "robust regularizer"}, "column": "attacked"},
        0.0,
    ),
    (
        "linear regression, d 100, eps 0.1: second-order loss over robust loss",
        {"part": "expansions", "where": {"eps": 0.1}, "column": "second order", "over": "robust loss"},
        1.0,
    ),
    (
        "linear regression, d 100, eps 0.1: eq. 1 as printed over robust loss",
        {"part": "expansions", "where": {"eps": 0.1}, "column": "eq. 1 as printed", "over": "robust loss"},
        1.0,
    ),
    (
        "logistic regression, rho 3: penalty",
        {"part": "logistic", "where": {"logits x": 1.0}, "column": "penalty"},
        None,
    ),
    (
        "logistic regression, rho 3: penalty with 16 times the logits",
        {"part": "logistic", "where": {"logits x": 16.0}, "column": "penalty"},
        0.0,
    ),
    (
        "logistic regression, rho 3: penalty at the start with 16 times the logits",
        {"part": "logistic", "where": {"logits x": 16.0}, "column": "penalty at start"},
        None,
    ),
    (
        "logistic regression, rho 3: worst rise with 16 times the logits",
        {"part": "logistic", "where": {"logits x": 16.0}, "column": "worst rise"},
        None,
    ),
    (
        "Proposition 1, rank one, eps 8/255: printed bound over maximum",
        {
            "part": "proposition",
            "where": {"loss": "counterexample, rank one", "d": 3072},
            "column": "printed",
            "over": "maximum",
        },
        None,
    ),
    (
        "Proposition 1, rank one, eps 8/255: corrected bound over maximum",
        {
            "part": "proposition",
            "where": {"loss": "counterexample, rank one", "d": 3072},
            "column": "corrected",
            "over": "maximum",
        },
        None,
    ),
)


def theory_table() -> PaperTable:
    """Give what the paper's theory says, as numbers where it says one."""
    rows = [PaperRow(name=name, values={"value": value}, std={}) for name, _, value in _THEORY]
    return _table(
        "theory",
        "The paper's theory: linear regression, logistic regression, and Proposition 1, which says that the"
        " printed bound is no less than the maximum",
        "loss or ratio",
        ("value",),
        rows,
        dataset="none",
    )


def theory_rows() -> tuple[RowPlan, ...]:
    """Give where every number of the theory comes from."""
    return tuple(
        RowPlan(name=name, network=None, columns={"value": Measurement("theory", options)})
        for name, options, _ in _THEORY
    )


def _table(
    name: str,
    gist: str,
    unit: str,
    columns: tuple[str, ...],
    rows: list[PaperRow],
    *,
    dataset: str,
) -> PaperTable:
    return PaperTable(
        id=name,
        gist=gist,
        dataset=dataset,
        norm="linf",
        eps=None,
        unit=unit,
        row_key="method" if name == "cost" else "quantity",
        columns=columns,
        rows=tuple(rows),
    )
