"""From the head of a column to the measurement behind it."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from soar.experiments.measuring.measurement import Measurement
from soar.experiments.planning.networks import network
from soar.experiments.planning.scales import Scale
from soar.paper.tables import PaperTable

_EPS = "8/255"
_STEP = "2/255"
_LARGEST_L2 = {"CIFAR-10": "1.74", "SVHN": "1.739"}

# AutoAttack's parts, as in its standard version.
_AUTOATTACK: dict[str, dict[str, Any]] = {
    "APGD-CE": {"attack": "apgd", "steps": 100},
    "APGD-DLR-T": {"attack": "apgd", "steps": 100, "loss": "dlr", "targets": 9},
    "FAB-T": {"attack": "fab", "steps": 100, "targets": 9},
    "Square": {"attack": "square", "queries": 5000},
}
_INPUTS = {"Standard": "clean", "Random": "random", "PGD1": "pgd1"}


def measurement(table: PaperTable, column: str, scale: Scale) -> Measurement:
    """Give what a column of a table measures.

    PGD on linf balls takes steps of 2/255, on l2 balls steps of 2.5 eps / 100, as the paper says. The paper
    does not describe its SimBA; this one changes single pixels by eps, with as many queries as Square has,
    2,000 at small scale.

    Args:
        table: the paper's
        column: one of its columns
        scale: how large

    >>> from soar.paper import tables
    >>> from soar.experiments.planning.scales import SCALES
    >>> measurement(tables.load("adv_l2"), "eps=1.74", SCALES["small"]).options["step_size"]
    '87/2000'
    """
    if table.id == "confidence":
        return Measurement("confidence", {"at": _INPUTS[column], "eps": _EPS})
    if table.id == "relaxation":
        steps = {"loss_linf": 20, "loss_l2": 100}[column]
        return Measurement(
            "relaxation",
            scale.limited({"ball": column.removeprefix("loss_"), "eps": _EPS, "steps": steps}),
        )
    if table.id == "number-of-samples":
        samples = int(column.removeprefix("n="))
        return Measurement(
            "samples", scale.limited({"samples": samples, "objective": soar_options(scale), "eps": _EPS})
        )
    if column == "Standard":
        return Measurement("clean")
    return _attack(table, column, scale)


def soar_options(scale: Scale) -> dict[str, Any]:
    """Give the options of the SOAR loss that a scale trains with."""
    objective = network("soar", scale, 0).recipe.objective
    if objective["name"] == "soar-paper":
        # What that name stands for, written out, so that the number of samples can be set.
        return {
            "start": "pgd-1",
            "start_share": 0.5,
            "penalty_share": 0.5,
            "product": "difference",
            "step": 0.01,
            "scale": 1.0,
            "clamp": 10.0,
        }
    return {key: value for key, value in objective.items() if key != "name"}


def _attack(table: PaperTable, column: str, scale: Scale) -> Measurement:
    """Give the accuracy under an attack, run on the network itself or brought from a source."""
    if column == "FGSM":
        return _accuracy(scale, attack="fgsm")
    if column == "SimBA":
        return _accuracy(scale, attack="simba", queries=5000 if scale.is_full else 2000)
    if "@" in column:
        name, eps = column.split("@")
        return _accuracy(scale, norm=table.norm, eps=eps, **_AUTOATTACK[name])
    source = "svhn-source" if table.dataset == "SVHN" else "source-resnet"
    if column == "Transfer":
        return _l2_pgd(scale, _LARGEST_L2[table.dataset], source)
    if column.startswith("eps="):
        return _l2_pgd(scale, column.removeprefix("eps="))
    parts = re.match(r"PGD(\d+)(-50)?", column)
    assert parts is not None, column
    numbers: dict[str, Any] = {"attack": "pgd", "steps": int(parts[1]), "step_size": _STEP}
    if parts[2]:
        numbers["restarts"] = 50
    if column.endswith("-W"):
        return _transfer(scale, "source-wide", **numbers)
    if "-R" in column or "black-box" in column or table.id == "svhn_blackbox":
        return _transfer(scale, source, **numbers)
    return _accuracy(scale, **numbers)


def _l2_pgd(scale: Scale, eps: str, source: str = "") -> Measurement:
    step = str(Fraction(eps) / 40)
    numbers: dict[str, Any] = {"attack": "pgd", "steps": 100, "step_size": step, "norm": "l2", "eps": eps}
    return _transfer(scale, source, **numbers) if source else _accuracy(scale, **numbers)


def _accuracy(scale: Scale, **options: Any) -> Measurement:
    return Measurement("accuracy", {"norm": "linf", "eps": _EPS, **scale.limited(options)})


def _transfer(scale: Scale, source: str, **options: Any) -> Measurement:
    return Measurement("transfer", {"norm": "linf", "eps": _EPS, **scale.limited(options)}, (source,))
