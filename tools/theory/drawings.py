"""The figure of each part of the theory: one message, in the title."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.figures.command import Section
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing
from torch import Tensor

from soar.theory import Rows, linear_regression
from tools.theory import derivation, regularizers

# Smaller rises are drawn here: a logarithmic axis has no place for 0.
_LEAST = 1e-6

_COMPARED = (derivation.SECOND, derivation.CORRECTED)
_GROUPS = {
    "the loss itself, as far as PGD finds": ORANGE,
    "its expansion": BLUE,
    "the norms of the proof": GREEN,
    "sampled z": GRAY,
}
_CHAIN = {
    derivation.SHOWN: ORANGE,
    derivation.LOSS: ORANGE,
    derivation.LOSS_L2: ORANGE,
    derivation.FIRST: BLUE,
    derivation.SECOND: BLUE,
    derivation.SECOND_L2: BLUE,
    derivation.SPECTRAL: GREEN,
    derivation.FROBENIUS: GREEN,
    derivation.EXPECTED: GREEN,
    derivation.CORRECTED: GREEN,
}


def draw_linear_regression(rows: Rows, path: Path) -> None:
    """Draw the attacked loss over the dimension, on logarithmic axes."""
    with drawing(path) as figure:
        axes = figure.add_subplot()
        axes.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="loss under attack")
        axes.set_title("The attack grows as d² when nothing removes unused weights")
        axes.grid(visible=True)
        descent = _of(rows, linear_regression.GRADIENT_DESCENT)
        dimensions = [row["d"] for row in descent]
        axes.plot(dimensions, [row["expected"] for row in descent], color=ORANGE, alpha=0.5)
        axes.plot(dimensions, [row["attacked"] for row in descent], "o", color=ORANGE)
        axes.annotate(
            "gradient descent\n(line: expected value)",
            (descent[2]["d"], descent[2]["attacked"]),
            xytext=(-12, 0),
            textcoords="offset points",
            color=ORANGE,
            ha="right",
        )
        for name, color, offset in (
            (regularizers.RIDGE, BLUE, -13),
            (regularizers.LASSO, GRAY, 7),
        ):
            found = _of(rows, name)
            axes.plot(dimensions, [row["attacked"] for row in found], color=color)
            axes.annotate(
                f"{name}: biased",
                (dimensions[-1], found[-1]["attacked"]),
                xytext=(0, offset),
                textcoords="offset points",
                color=color,
                ha="right",
            )
        axes.set_ylim(bottom=1e-4)
        axes.text(dimensions[0], 1.3e-4, "robust regularizer: 0 in every dimension", color=GREEN, va="bottom")


def draw_logistic_regression(sections: list[Section], path: Path) -> None:
    """Draw penalty and adversary over the scale of the logits."""
    near, far = (section.rows for section in sections)
    factors = [row["logits x"] for row in near]
    with drawing(path, width=8.4) as figure:
        figure.suptitle(
            "Confidence switches the penalty off, not the adversary", x=0.01, ha="left", weight="bold"
        )
        panels = figure.subplots(1, 2, sharey=True)
        for axes, rows, title in zip(
            panels,
            (near, far),
            ("Start stops before the boundary, $\\rho = 3$", "Start crosses it, $\\rho = 5$"),
            strict=True,
        ):
            axes.set(xscale="log", yscale="log", xlabel="factor on the logits", ylim=(1e-13, 1e3))
            axes.set_xticks(factors, [f"{factor:g}" for factor in factors], minor=False)
            axes.minorticks_off()
            axes.set_title(title, fontsize=10, weight="normal")
            axes.grid(visible=True)
            for key, color, label in (
                ("worst rise", ORANGE, "true worst rise"),
                ("penalty at start", GREEN, "penalty at a half-way start"),
                ("penalty", BLUE, "penalty at the image"),
            ):
                axes.plot(factors, [row[key] for row in rows], "o-", color=color, markersize=4, label=label)
        panels[0].set_ylabel("rise of the loss")
        panels[0].legend(frameon=False, loc="lower left")


def draw_proposition_1(rows: Rows, path: Path) -> None:
    """Draw the counterexample over the radius of the ball."""
    with drawing(path) as figure:
        axes = figure.add_subplot()
        axes.set(xlabel="ε, in 1/255 (d = 3072)", ylabel="loss of the counterexample", yscale="log")
        axes.set_title("Proposition 1 as printed lies below the maximum it should bound")
        axes.grid(visible=True)
        eps = [row["eps"] * 255 for row in rows]
        maximum, printed = ([row[name] for row in rows] for name in ("maximum", "printed"))
        axes.fill_between(eps, printed, maximum, color=ORANGE, alpha=0.15, linewidth=0)
        axes.plot(eps, maximum, color=BLUE)
        axes.plot(eps, printed, color=ORANGE)
        middle = 2 * len(eps) // 3
        axes.annotate(
            "exact maximum, which both\ncorrected bounds meet",
            (eps[middle], maximum[middle]),
            xytext=(-12, 6),
            textcoords="offset points",
            color=BLUE,
            ha="right",
        )
        axes.annotate(
            "printed bound: 0.80 of it",
            (eps[middle], printed[middle]),
            xytext=(10, -12),
            textcoords="offset points",
            color=ORANGE,
        )
        axes.set_xlim(left=0)


def draw_tightness(gains: Mapping[str, Tensor], subtitle: str, path: Path) -> None:
    """Draw every quantity of the derivation, one dot per image, with medians."""
    shown = {**_CHAIN, **dict.fromkeys(_sampled(gains), GRAY)}
    with drawing(path, width=8.4, height=0.34 * len(shown) + 1.9) as figure:
        expansion, bound = (_median(gains[name] / gains[derivation.LOSS]) for name in _COMPARED)
        figure.suptitle(
            f"In the median the expansion sees {expansion:.2g} of the rise; "
            f"SOAR's bound is {bound:.2g} times it",
            x=0.01,
            ha="left",
            weight="bold",
        )
        axes = figure.add_subplot()
        axes.set(xscale="log", xlabel="rise of the loss: one dot per image, bars and numbers are medians")
        axes.set_title(subtitle, fontsize=9, weight="normal")
        axes.grid(visible=True, axis="x")
        margin = axes.get_yaxis_transform()
        for height, (name, color) in enumerate(reversed(shown.items())):
            values = gains[name].clamp(min=_LEAST).tolist()
            axes.plot(values, [height] * len(values), "o", color=color, alpha=0.3, markersize=5, mew=0)
            middle = _median(gains[name])
            axes.plot([middle] * 2, [height - 0.35, height + 0.35], color=color, linewidth=3)
            axes.text(1.01, height, f"{middle:.3g}", color=color, va="center", transform=margin)
        axes.set_yticks(range(len(shown)), list(reversed(shown)))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        for group, color in _GROUPS.items():
            axes.plot([], [], "o", color=color, label=group)
        axes.legend(loc="lower left", frameon=False)


def _sampled(gains: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the smallest and the largest sample, and of the finite differences."""
    printed = [name for name in gains if name.endswith(" z, printed")]
    return [*dict.fromkeys([printed[0], printed[-1]]), *(name for name in gains if " z, h " in name)]


def _median(values: Tensor) -> float:
    return float(values.quantile(0.5))


def _of(rows: Rows, name: str) -> Rows:
    return [row for row in rows if row["fit"] == name]
