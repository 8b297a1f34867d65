"""Measure other ways to compute SOAR's training step beside the way of the library.

    python benchmarks/step_variants.py              minutes; writes results/step_variants.{txt,json}
    python benchmarks/step_variants.py --compile    minutes more, with torch.compile and so a C++ compiler
    python benchmarks/step_variants.py --quick      seconds, tiny numbers, to see that it works

All variants take their steps in turns in one process and one thread. Each round gives the ratio of CPU times
to a step of PGD-10 training in the same round, and the median over the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad

from soar import curvature, double_backward, randomness
from soar.cost.step import take_step
from soar.cost.workload import WORKLOADS, Workload, build
from soar.curvature import LogitsAt, augmented_norm, augmented_product, draw_direction, input_gradient
from soar.double_backward import convolution
from soar.environment import environment
from soar.losses import cross_entropy
from soar.objectives.soar import SOAR, Expansion
from soar.shapes import per_example
from soar.threat import Linf

RESULTS = Path(__file__).parent / "results"
REFERENCE = "adversarial:steps=10"
NETWORKS = tuple(
    replace(WORKLOADS[name], batch_size=WORKLOADS[name].batch_size // 2)
    for name in ("resnet10-w16", "resnet10-w64", "wrn-28-2")
)
QUICK = (Workload(name="tiny", model="resnet10", options=(("width", 8),), batch_size=4),)
Within = Callable[[], AbstractContextManager[Any]]


class Concatenated(SOAR):
    """Both points of the difference in one batch."""

    def _expand(self, points: Tensor, y: Tensor, keys: list[Tensor]) -> Expansion:
        answers: list[Tensor] = []
        twice = torch.cat([y, y])

        def loss_at(images: Tensor) -> Tensor:
            answers.append(self.model(images))
            return cross_entropy(answers[-1], twice)

        z = draw_direction(keys[0], tuple(points.shape[1:]))
        length = per_example(torch.linalg.vector_norm(z.pixels.flatten(1), dim=1), points)
        both = torch.cat([points, points + self.fd_step * z.pixels / length])
        _, gradients = input_gradient(loss_at, both, differentiable=True)
        near, far = gradients.chunk(2)
        product = augmented_product(length * (far - near) / self.fd_step, near, z, scale=self.loss_scale)
        count = len(y)
        return Expansion(answers[0][:count], near, augmented_norm(product)[:, None], z.last.abs()[:, None])


class FromParts(SOAR):
    """Gauss-Newton with a forward pass for the gradient and one for the product."""

    def _expand_in_one_go(self, points: Tensor, y: Tensor, keys: list[Tensor]) -> Expansion:
        answers: list[Tensor] = []

        def loss_at(images: Tensor) -> Tensor:
            answers.append(self.model(images))
            return cross_entropy(answers[-1], y)

        z = draw_direction(keys[0], tuple(points.shape[1:]))
        _, gradient = input_gradient(loss_at, points, differentiable=True)
        along = curvature.gauss_newton_product(self.model, points, z.pixels, differentiable=True)
        product = augmented_product(along, gradient, z, scale=self.loss_scale)
        return Expansion(answers[0], gradient, augmented_norm(product)[:, None], z.last.abs()[:, None])


def along_by_difference(logits: LogitsAt, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return J z by a finite difference of logits, which feels the kinks on its way."""
    length = torch.linalg.vector_norm(direction.flatten(1), dim=1)
    outputs = logits(x)
    further = logits((x + 0.01 * direction / per_example(length, x)).detach())
    return outputs, (further - outputs) * length[:, None] / 0.01


@dataclass(frozen=True)
class Variant:
    """A way to compute the step.

    Args:
        name: what it is called in the table
        verdict: what became of it, and why
        kind: the objective
        options: of the objective
        within: the circumstances of the step
    """

    name: str
    verdict: str
    kind: type[SOAR] = SOAR
    options: tuple[tuple[str, Any], ...] = ()
    within: Within = nullcontext

    def subject(self, network: Workload) -> tuple[SOAR, Tensor, Tensor]:
        """Make the objective, around a network as the benchmark of steps makes it."""
        made, x, y = build("soar", network)
        options: dict[str, Any] = {
            "hvp": "finite-difference",
            "batchnorm_stats": "batch",
            **dict(self.options),
        }
        return self.kind(made.model, Linf("8/255"), **options), x, y


def without(*functions: Any, small_map: int = convolution._SMALL_MAP) -> Within:
    """Take faster forms of layers away."""

    def within() -> AbstractContextManager[Any]:
        stack = ExitStack()
        kept = {key: value for key, value in double_backward._REPLACED.items() if key not in functions}
        stack.enter_context(patch.object(double_backward, "_REPLACED", kept))
        stack.enter_context(patch.object(convolution, "_SMALL_MAP", small_map))
        return stack

    return within


def with_derivative(function: Callable[..., Any]) -> Within:
    """Compute J z in another way."""
    return lambda: patch.object(curvature, "logits_along", function)


RELU = (F.relu, torch.relu, Tensor.relu)
VARIANTS = (
    Variant("difference", "the library, hvp=finite-difference: a difference of gradients"),
    Variant(
        "PyTorch's double backward",
        "not kept: odd convolutions, thirty passes for batch norm, zeros for every ReLU",
        within=without(torch.conv2d, F.batch_norm, *RELU),
    ),
    Variant(
        "without matrices for small maps",
        "the library has them: the usual weight gradient of wide 4x4 maps runs at half speed",
        within=without(small_map=0),
    ),
    Variant(
        "without fast batch norm",
        "the library has it: five passes for thirty, and channels_last stays",
        within=without(F.batch_norm),
    ),
    Variant(
        "without lean ReLU",
        "the library has it for the memory: no map of zeros for every ReLU; the time is the same",
        within=without(*RELU),
    ),
    Variant(
        "both points in one batch",
        "not kept: no gain beyond the noise, and batch norm would mix both points",
        kind=Concatenated,
    ),
    Variant(
        "gauss-newton",
        "the library: one pass of dual numbers",
        options=(("hvp", "gauss-newton"),),
    ),
    Variant(
        "gauss-newton, J z by two passes back",
        "not kept: one pass more, and batch norm would be differentiated three times",
        options=(("hvp", "gauss-newton"),),
        within=with_derivative(curvature.logits_along_backward),
    ),
    Variant(
        "gauss-newton, J z by difference",
        "not kept: the same work with an error, the kinks within the step",
        options=(("hvp", "gauss-newton"),),
        within=with_derivative(along_by_difference),
    ),
    Variant(
        "gauss-newton from parts",
        "not kept: the gradient and the product each with a forward pass of its own",
        options=(("hvp", "gauss-newton"),),
        kind=FromParts,
    ),
)


@dataclass(frozen=True)
class Row:
    """What was found of one variant on one network."""

    network: str
    name: str
    milliseconds: float
    ratio: float
    verdict: str


def measure(network: Workload, repeats: int) -> list[Row]:
    """Take steps of all variants in turns."""
    subjects = [(variant, variant.subject(network)) for variant in VARIANTS]
    reference = build(REFERENCE, network)
    ratios: dict[str, list[float]] = {variant.name: [] for variant in VARIANTS}
    times: dict[str, list[float]] = {name: [] for name in (REFERENCE, *ratios)}
    for repeat in range(repeats + 1):
        yardstick = take_step(*reference, repeat)
        times[REFERENCE].append(yardstick)
        for variant, subject in subjects:
            with variant.within():
                seconds = take_step(*subject, repeat)
            times[variant.name].append(seconds)
            ratios[variant.name].append(seconds / yardstick)
    ratios = {REFERENCE: [1.0, 1.0], **ratios}
    verdicts = {REFERENCE: "the yardstick"} | {variant.name: variant.verdict for variant in VARIANTS}
    return [
        Row(
            network.name,
            name,
            1000 * statistics.median(times[name][1:]),
            statistics.median(ratios[name][1:]),
            verdicts[name],
        )
        for name in times
    ]


def functional_step(objective: SOAR, x: Tensor, y: Tensor) -> Callable[[], dict[str, Tensor]]:
    """Return SOAR's gradient from x itself as one function of torch.func, which can be compiled."""
    model = objective.model
    z = draw_direction(randomness.key(0, torch.arange(len(y)), "variants"), tuple(x.shape[1:]))
    pixels = torch.empty_like(x).copy_(z.pixels)
    length = per_example(torch.linalg.vector_norm(pixels.flatten(1), dim=1), x)
    factor = objective.factor(x, 0)

    def value(weights: dict[str, Tensor]) -> Tensor:
        def loss(images: Tensor) -> tuple[Tensor, Tensor]:
            each = cross_entropy(functional_call(model, weights, (images,)), y)
            return each.sum(), each

        near, each = grad(loss, has_aux=True)(x)
        far, _ = grad(loss, has_aux=True)(x + objective.fd_step * pixels / length)
        product = augmented_product(
            length * (far - near) / objective.fd_step, near, z, scale=objective.loss_scale
        )
        total: Tensor = (each + factor * augmented_norm(product)).mean()
        return total

    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    gradient = grad(value)
    return lambda: gradient(weights)


def measure_compiled(network: Workload, repeats: int) -> list[Row]:
    """Take steps from x itself: by the library, by torch.func, and by torch.func compiled."""
    made, x, y = build("soar:init=zero", network)
    assert isinstance(made, SOAR)
    reference = build(REFERENCE, network)
    eager = functional_step(made, x, y)
    compiled = torch.compile(eager)
    began = time.perf_counter()
    compiled()
    verdict = f"not kept: compiled for {time.perf_counter() - began:.0f} s, odd convolutions remain"
    ways: dict[str, tuple[str, Callable[[], object]]] = {
        REFERENCE: ("the yardstick", lambda: take_step(*reference, 0)),
        "soar from x": ("the library without the pass of the start", lambda: take_step(made, x, y, 0)),
        "soar from x, torch.func": ("not kept: PyTorch's double backward", eager),
        "soar from x, torch.compile": (verdict, compiled),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, (_, way) in ways.items():
            start = time.process_time()
            way()
            times[name].append(time.process_time() - start)
    return [
        Row(
            network.name,
            name,
            1000 * statistics.median(times[name][1:]),
            statistics.median(a / b for a, b in zip(times[name][1:], times[REFERENCE][1:], strict=True)),
            verdict,
        )
        for name, (verdict, _) in ways.items()
    ]


def lines(network: Workload, rows: list[Row]) -> str:
    """Write a network's rows as text."""
    text = [f"{network.name}, batch of {network.batch_size}: ms, ratio to PGD-10, what became of it"]
    text += [f"  {row.name:<42}{row.milliseconds:7.0f}  {row.ratio:5.3f}  {row.verdict}" for row in rows]
    return "\n".join(text)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny numbers, to see that it works")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    parser.add_argument("--repeats", type=int, default=4, help="rounds to take the median of")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    networks, repeats = (QUICK, 1) if arguments.quick else (NETWORKS, arguments.repeats)
    found: list[tuple[Workload, list[Row]]] = []
    for network in networks:
        found.append((network, measure(network, repeats)))
        publish(found, arguments.out)
    if arguments.compile:
        found.append((networks[0], measure_compiled(networks[0], repeats)))
        publish(found, arguments.out)


def publish(found: list[tuple[Workload, list[Row]]], folder: Path) -> None:
    """Print what came last and save everything so far, so that an interruption loses little."""
    print(lines(*found[-1]), end="\n\n", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(lines(network, rows) for network, rows in found)
    (folder / "step_variants.txt").write_text(text + "\n")
    record = {"rows": [vars(row) for _, rows in found for row in rows], "environment": environment()}
    (folder / "step_variants.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
