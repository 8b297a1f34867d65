"""How tight the derivation of SOAR is, as tables: sizes, ratios, and the spread of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tools.figures.command import Section
from tools.figures.network import Network
from tools.theory.derivation import (
    CORNER_FREE,
    CORRECTED,
    EXACT,
    EXPECTED,
    FIRST,
    FROBENIUS,
    LOSS,
    LOSS_L2,
    SECOND,
    SECOND_L2,
    SHOWN,
    SPECTRAL,
    STEPS,
    Tightness,
    difference_name,
    remaining_ball,
)
from torch import Tensor

from soar.progress import Mode
from soar.theory import Rows
from soar.theory.proposition_1 import CORRECTION, norm_bound
from tools.theory import derivation


def all_gains(examples: Sequence[Tightness], radius: float) -> dict[str, Tensor]:
    """Collect every quantity over the examples, those of sampled z included; one number per example.

    Args:
        examples: what was measured
        radius: rho
    """
    gains = {name: torch.tensor([e.gains[name] for e in examples]).double() for name in examples[0].gains}
    exact = torch.stack([e.norms[EXACT] for e in examples])
    for count in _counts(exact.shape[1]):
        mean = exact[:, :count].mean(dim=1)
        square = exact[:, :count].square().mean(dim=1).sqrt()
        gains[f"{count} z, printed"] = norm_bound(mean, radius)
        gains[f"{count} z, corrected"] = norm_bound(CORRECTION * mean, radius)
        gains[f"{count} z, mean square"] = norm_bound(square, radius)
    for step in STEPS:
        mean = torch.stack([e.norms[difference_name(step)] for e in examples]).mean(dim=1)
        gains[f"{exact.shape[1]} z, {difference_name(step)}"] = norm_bound(mean, radius)
    return gains


def quantities(gains: dict[str, Tensor]) -> Rows:
    """Return how large each quantity is, and for how many examples it bounds what it should.

    Args:
        gains: of `all_gains`
    """
    kinds = {
        SHOWN: "found",
        LOSS: "found",
        LOSS_L2: "found",
        SECOND: "found",
        **dict.fromkeys((FIRST, SECOND_L2, SPECTRAL, FROBENIUS, CORNER_FREE, EXPECTED, CORRECTED), "exact"),
    }
    return [
        {
            "rise above the loss": name,
            "how": kinds.get(name, "sampled"),
            "median": float(values.quantile(0.5)),
            "mean": float(values.mean()),
            "bounds second order": _share(values, gains[SECOND]),
            "bounds attack": _share(values, gains[SHOWN]),
        }
        for name, values in gains.items()
    ]


def steps_of(gains: dict[str, Tensor], examples: Sequence[Tightness]) -> Rows:
    """Return each step of the derivation as a ratio.

    Args:
        gains: of `all_gains`
        examples: what was measured
    """
    steps = [
        ("loss without pixel range / with", gains[LOSS], gains[SHOWN]),
        ("second order / loss, linf", gains[SECOND], gains[LOSS]),
        ("loss, l2 / linf", gains[LOSS_L2], gains[LOSS]),
        ("second order, l2 / linf", gains[SECOND_L2], gains[SECOND]),
        ("spectral / second order, l2", gains[SPECTRAL], gains[SECOND_L2]),
        ("Frobenius / spectral", gains[FROBENIUS], gains[SPECTRAL]),
        ("printed / Frobenius", gains[EXPECTED], gains[FROBENIUS]),
        ("corrected / Frobenius", gains[CORRECTED], gains[FROBENIUS]),
        ("corrected / second order, linf", gains[CORRECTED], gains[SECOND]),
        ("corrected / loss, linf", gains[CORRECTED], gains[LOSS]),
    ]
    means = {way: torch.stack([e.norms[way].mean() for e in examples]) for way in examples[0].norms}
    steps += [(f"||Hz|| by difference, {way} / exact", means[way], means[EXACT]) for way in list(means)[1:]]
    return [
        {
            "step": name,
            "median ratio": float((upper / lower).quantile(0.5)),
            "ratio of means": float(upper.mean() / lower.mean()),
        }
        for name, upper, lower in steps
    ]


def spread(examples: Sequence[Tightness]) -> Rows:
    """Return the relative deviation of a mean of n samples of ||Hz|| from its expectation.

    Args:
        examples: what was measured
    """
    norms = torch.stack([e.norms[EXACT] for e in examples])
    single = norms.std(dim=1) / norms.mean(dim=1)
    return [
        {
            "z": count,
            "median deviation": float(single.quantile(0.5)) / math.sqrt(count),
            "largest deviation": float(single.max()) / math.sqrt(count),
        }
        for count in _counts(norms.shape[1])
    ]


def measure(
    network: Network, *, samples: int, start: str, mode: Mode
) -> tuple[list[Section], dict[str, Tensor]]:
    """Measure the derivation on a network, and arrange the quantities as tables.

    Args:
        network: network, images, threat
        samples: number of directions z
        start: where the loss is expanded
        mode: how to show progress

    Returns:
        The tables, and the quantities of `all_gains`.
    """
    examples = derivation.measure(
        network.model,
        network.threat,
        network.x,
        network.y,
        index=network.index,
        samples=samples,
        start=start,
        mode=mode,
    )
    threat = remaining_ball(network.threat, start)
    dimension = network.x[0].numel()
    radius = threat.enclosing_l2_radius(dimension)
    gains = all_gains(examples, radius)
    place = "the image" if start == "zero" else f"a {start} point, half of {network.threat} away"
    rank = float(torch.tensor([e.stable_rank for e in examples]).quantile(0.5))
    title = (
        f"{network.name}: {len(examples)} images of {network.data_name}, {threat} around {place}, "
        f"d {dimension}, rho {radius:.4g}"
    )
    sections = [
        Section(title, quantities(gains)),
        Section("What each step of the derivation multiplies by", steps_of(gains, examples)),
        Section(f"How far a mean over z strays; median stable rank of H {rank:.3g}", spread(examples)),
    ]
    return sections, gains


def _counts(samples: int) -> list[int]:
    """Return 1, 10, 100, ... and the number of samples itself."""
    powers = [10**k for k in range(6) if 10**k < samples]
    return [*powers, samples]


def _share(values: Tensor, of: Tensor) -> str:
    """Return for how many examples the values are at least as large, up to rounding."""
    holds = values >= of * (1 - 1e-9)
    return f"{float(holds.double().mean()):.0%}"
