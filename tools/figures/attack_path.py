r"""The loss on the way of an attack, and what expansions at its beginning and half-way predict about its end.

With x + d the end of PGD-20 and p = x + t d, the expansion at p predicts for the rest of the way, r = 1 - t,
\( l(p) + r g^T d + \frac{r^2}{2} d^T H_s d \).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from tools.figures.command import Section
from tools.figures.drawing import BLUE, GRAY, ORANGE, drawing
from tools.figures.network import Network
from tools.theory.derivation import loss_in_double
from torch import Tensor

from soar.curvature import exact_product, input_gradient
from soar.model_state import probing
from soar.objectives.starts import Start
from soar.theory import Rows

PLACES = {"the image": 0.0, "half-way": 0.5}


class Taylor(NamedTuple):
    """The loss along a way, at one place of it: one number per example each."""

    value: Tensor
    slope: Tensor
    curvature: Tensor

    def after(self, distance: Tensor | float, order: int) -> Tensor:
        """Return the expected loss further on.

        >>> Taylor(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(4.0)).after(0.5, order=2)
        tensor(2.5000)
        """
        bend = self.curvature * distance**2 / 2 if order == 2 else 0
        return self.value + self.slope * distance + bend


class Way(NamedTuple):
    """The way of PGD-20 on every image."""

    fractions: Tensor
    losses: Tensor
    """shape (examples, fractions)"""
    expansions: dict[str, Taylor]

    def rises(self, name: str) -> dict[str, Tensor]:
        """Return the rise from a place to the end: the true one, and those that the expansions predict."""
        taylor, rest = self.expansions[name], 1 - PLACES[name]
        predicted = {f"order {order}": taylor.after(rest, order) - taylor.value for order in (1, 2)}
        return {"true": self.losses[:, -1] - taylor.value, **predicted}


def measure(network: Network, points: int = 61) -> Way:
    """Follow the attack on every image.

    Args:
        network: network, images, threat
        points: where to evaluate the loss
    """
    model, x, y = network.model, network.x, network.y
    loss = loss_in_double(model, y)
    with probing(model):
        attack = Start("pgd-20", share=1.0)
        end, _ = attack.find(model, network.threat, x, y, index=network.index, seed=0, step=0)
        way = end - x
        fractions = torch.linspace(0, 1, points, dtype=torch.float64)
        with torch.no_grad():
            losses = torch.stack([loss(x + float(t) * way) for t in fractions], dim=1)
        expansions = {}
        for name, place in PLACES.items():
            value, gradient = input_gradient(loss, x + place * way)
            bent = exact_product(loss, x + place * way, way)
            slope, curvature = ((one * way).flatten(1).sum(dim=1).double() for one in (gradient, bent))
            expansions[name] = Taylor(value, slope, curvature)
    return Way(fractions, losses, expansions)


def table(found: Way) -> Rows:
    """Return medians over the images: the rise, and the part of it that the expansions see."""
    rows: Rows = []
    for name in PLACES:
        rises = found.rises(name)
        # An image whose loss does not rise has no part that could be seen.
        rose = rises["true"] > 0
        row = {
            "expanded at": name,
            "images": int(rose.sum()),
            "rise to the end": _median(rises["true"][rose]),
        }
        for order in ("order 1", "order 2"):
            row[f"{order} sees"] = _median((rises[order] / rises["true"])[rose])
        rows.append(row)
    return rows


def sections(network: Network, found: Way) -> list[Section]:
    """Arrange what was measured."""
    images = f"{len(network.x)} images of {network.data_name}"
    title = f"{network.name}: the way of PGD-20 on {images}, {network.threat}"
    return [Section(title, table(found))]


def draw(found: Way, path: Path) -> None:
    """Draw the image whose rise from the start is seen to the median degree."""
    rises = found.rises("the image")
    seen = rises["order 2"] / rises["true"]
    chosen = int((seen - seen.quantile(0.5)).abs().argmin())
    losses = found.losses[chosen]
    top = 1.15 * float(losses.max())
    with drawing(path, width=8.4, height=3.7) as figure:
        figure.suptitle("Half-way the second order sees what is to come", x=0.01, ha="left", weight="bold")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (name, place) in zip(panels, PLACES.items(), strict=True):
            taylor = Taylor(*(one[chosen] for one in found.expansions[name]))
            axes.set_title(f"Expanded at {name}", fontsize=10, weight="normal")
            axes.set(
                xlabel="part of the way from the image to PGD-20's end", xlim=(0, 1), ylim=(-0.05 * top, top)
            )
            axes.plot(found.fractions, losses, color=ORANGE, label="the loss")
            for order, color, style in ((2, BLUE, "--"), (1, GRAY, ":")):
                predicted = taylor.after(found.fractions - place, order)
                axes.plot(found.fractions, predicted, style, color=color, label=f"expansion, order {order}")
            axes.plot([place], [float(taylor.value)], "o", color=BLUE, clip_on=False)
        panels[0].set_ylabel("loss of one image")
        panels[0].legend(frameon=False, loc="upper left")


def _median(values: Tensor) -> float:
    return float(values.quantile(0.5)) if len(values) else float("nan")
