r"""What a finite difference of gradients measures in a network of ReLUs, by the length h of its step.

Between kinks the gradient changes smoothly, by the Hessian; at a kink it jumps. The difference over a step
divides the jumps inside it by h, so its value depends on h, and the smaller h the more a single jump weighs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from tools.figures.command import Section
from tools.figures.drawing import BLUE, GRAY, GREEN, ORANGE, drawing
from tools.figures.network import Network
from tools.theory.derivation import loss_in_double
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from soar import randomness
from soar.curvature import LossAt, difference_product, draw_direction, exact_product, input_gradient
from soar.model_state import probing
from soar.theory import Rows

STEPS = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 0.5, 1.0, 3.0)
PAPER = 0.01
_LINE = 2 * PAPER
_RECTIFIERS = (F.relu, torch.relu, Tensor.relu)


class Patterns(TorchFunctionMode):
    """Record which ReLUs are active."""

    def __init__(self) -> None:
        super().__init__()
        self.on: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Look at what goes into a ReLU and pass everything on."""
        if func in _RECTIFIERS:
            self.on.append((args[0] > 0).reshape(len(args[0]), -1))
        return func(*args, **(kwargs or {}))


class Found(NamedTuple):
    """Norms of H_s z, and the derivative of the loss along one line."""

    exact: Tensor
    """of the Hessian, one per image and direction"""
    by_step: dict[float, Tensor]
    kinks: dict[float, Tensor]
    """how many ReLUs switch within the step"""
    places: Tensor
    slopes: Tensor
    """the derivative of the loss along the line"""
    tangent: Tensor
    """the same, were the Hessian all there is"""

    def ratio(self, step: float) -> float:
        """Return the median ratio of the norms by differences to those of the Hessian."""
        return float((self.by_step[step] / self.exact).median())


def measure(network: Network, *, samples: int, points: int = 400) -> Found:
    """Compare differences with the Hessian, in double precision so that no rounding is seen.

    Args:
        network: network, images, threat
        samples: directions z per image
        points: where to evaluate the derivative along the line
    """
    model = network.model.double()
    # One row per image and direction, as if each were an image of its own.
    x, y, index = (
        one.repeat_interleave(samples, 0) for one in (network.x.double(), network.y, network.index)
    )
    number = torch.arange(samples).repeat(len(network.x))
    keys = randomness.key(0, index, "figure kinks", number)
    z = draw_direction(keys, tuple(x.shape[1:]), torch.float64).pixels
    loss = loss_in_double(model, y)
    with probing(model):
        before = _patterns(loss, x)
        _, gradient = input_gradient(loss, x)
        exact = exact_product(loss, x, z).flatten(1).norm(dim=1)
        by_step, kinks = {}, {}
        unit = F.normalize(z.flatten(1), dim=1).reshape(z.shape)
        for step in STEPS:
            by_step[step] = difference_product(loss, x, gradient, z, step).flatten(1).norm(dim=1)
            kinks[step] = (_patterns(loss, x + step * unit) != before).sum(dim=1).double()
        chosen = int((exact - exact.median()).abs().argmin())
        line = _follow(loss_in_double(model, y[chosen]), x[chosen], unit[chosen], points)
    return Found(exact, by_step, kinks, *line)


def _patterns(loss: LossAt, x: Tensor) -> Tensor:
    with torch.no_grad(), Patterns() as seen:
        loss(x)
    return torch.cat(seen.on, dim=1) if seen.on else torch.zeros(len(x), 0, dtype=torch.bool)


def _follow(loss: LossAt, x: Tensor, unit: Tensor, points: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return places on a line, the derivative of the loss there, and its tangent at the beginning."""
    places = torch.linspace(0, _LINE, points, dtype=torch.float64)
    line = x + places.reshape(-1, *[1] * x.dim()) * unit
    _, gradients = input_gradient(loss, line)
    slopes = (gradients * unit).flatten(1).sum(dim=1)
    bend = (exact_product(loss, x[None], unit[None]) * unit).sum()
    return places, slopes, slopes[0] + bend * places


def sections(network: Network, found: Found) -> list[Section]:
    """Arrange what was measured as medians over images and directions, and means."""
    title = f"{network.name}: ||H_s z|| at {len(network.x)} images of {network.data_name}, by the step h"
    rows: Rows = [
        {
            "h": step,
            "kinks within": float(found.kinks[step].median()),
            "median ||H_s z||": float(norms.median()),
            "mean": float(norms.mean()),
            "median / exact": found.ratio(step),
        }
        for step, norms in found.by_step.items()
    ]
    exact = {"median ||H_s z||": float(found.exact.median()), "mean": float(found.exact.mean())}
    rows.append({"h": "exact", "kinks within": None, **exact, "median / exact": 1.0})
    return [Section(title, rows)]


def draw(found: Found, path: Path) -> None:
    """Draw the jumps on one line, and the norm by step."""
    with drawing(path, width=8.4, height=3.8) as figure:
        figure.suptitle("The difference measures jumps, not the Hessian", x=0.01, ha="left", weight="bold")
        line, norms = figure.subplots(1, 2)
        line.set_title("Slope of the loss along one z", fontsize=10, weight="normal")
        line.set(xlabel="distance from the image", ylabel="slope", xlim=(0, _LINE))
        line.set_xticks([0, PAPER / 2, PAPER, 1.5 * PAPER, _LINE])
        line.plot(found.places, found.slopes, color=ORANGE, linewidth=1.5, label="network")
        line.plot(found.places, found.tangent, "--", color=BLUE, label="with its Hessian alone")
        line.margins(y=0.2)
        line.locator_params(axis="y", nbins=5)
        line.legend(frameon=False)
        norms.set_title("‖H$_s$z‖, all images", fontsize=10, weight="normal")
        norms.set(xscale="log", yscale="log", xlabel="step h", ylabel="‖H$_s$z‖")
        for name, color, summary in (("mean", GREEN, Tensor.mean), ("median", BLUE, Tensor.median)):
            found_by_step = [float(summary(found.by_step[step])) for step in STEPS]
            norms.plot(STEPS, found_by_step, "o-", color=color, markersize=3, label=f"difference, {name}")
            exact = float(summary(found.exact))
            norms.axhline(exact, color=color, linestyle="--", linewidth=1.2, label=f"Hessian, {name}")
        low, high = norms.get_ylim()
        norms.set_ylim(low / 2, 12 * high)
        norms.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
        for axes in (line, norms):
            axes.axvline(PAPER, color=GRAY, linewidth=1, linestyle=":")
            across = axes.get_xaxis_transform()
            axes.text(PAPER, 0.02, " h = 0.01", color=GRAY, fontsize=8, transform=across, va="bottom")
