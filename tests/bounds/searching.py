"""Look for points that a bound forbids: corners, random points and an ascent from each of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from soar.bounds import crown_margins, propagate
from soar.threat import Threat

SHAPE = (2, 6, 6)
CLASSES = 3
# What the summation of float32 logits may differ by from those in float64.
SLACK = 1e-9


def images(count: int = 3, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(*layers: nn.Module, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> nn.Module:
    """Return some layers and a linear one behind them, all with weights of a usual size."""
    body = nn.Sequential(*layers, nn.Flatten()).double().eval()
    features = body(images(shape=shape)).shape[1]
    model = nn.Sequential(body, nn.Linear(features, CLASSES).double()).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point():
            scale = 1.0 if tensor.dim() < 2 else 1.4 / tensor[0].numel() ** 0.5
            values = scale * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            tensor.data.copy_(values.abs() + 0.5 if "running_var" in name else values)
    return model.requires_grad_(False)


def least_margins(model: nn.Module, x: Tensor, y: Tensor, threat: Threat, *, steps: int = 4) -> Tensor:
    """Return the least margins that a search finds, for all classes: one copy of the images descends each."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    centers, y, others = x.repeat(CLASSES, 1, 1, 1), y.repeat(CLASSES), torch.arange(CLASSES)
    others = others.repeat_interleave(len(x))
    corner = threat.project(x + 10 * threat.radius * threat.ascent(noise), x).repeat(CLASSES, 1, 1, 1)
    found = torch.full((len(y), CLASSES), torch.inf, dtype=x.dtype)
    for points in (centers, corner):
        for _ in range(steps):
            points = points.detach().requires_grad_()
            logits = model(points)
            margins = logits.gather(1, y[:, None]) - logits
            found = torch.minimum(found, margins.detach())
            (gradient,) = torch.autograd.grad(
                margins.gather(1, others[:, None]).sum(), points, materialize_grads=True
            )
            points = threat.project(points - threat.radius / 2 * threat.ascent(gradient), centers)
    found = found.reshape(CLASSES, len(x), CLASSES).amin(dim=0)
    return found.scatter(1, y[: len(x), None], torch.inf)


def labels(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        predicted: Tensor = model(x).argmax(dim=1)
    return predicted


def check_bounds(model: nn.Module, x: Tensor, threat: Threat) -> tuple[Tensor, Tensor]:
    """Check that no point of a search is beyond a bound, and return the bounds."""
    y = labels(model, x)
    by_intervals = propagate(model, x, threat)
    ibp, crown = by_intervals.margins(y), crown_margins(model, x, y, threat)
    found = least_margins(model, x, y, threat)
    assert (crown >= ibp).all(), "CROWN is never looser than intervals"
    assert (found >= crown - SLACK).all(), f"a search is {float((crown - found).max()):.2e} beyond CROWN"
    noise = torch.randn(20, *x.shape, generator=torch.Generator().manual_seed(2), dtype=x.dtype)
    points = torch.cat([threat.project(x + 10 * threat.radius * threat.ascent(one), x) for one in noise])
    with torch.no_grad():
        logits = model(points).reshape(20, len(x), CLASSES)
    assert (logits >= by_intervals.interval.lower - SLACK).all()
    assert (logits <= by_intervals.interval.upper + SLACK).all()
    return ibp, crown
