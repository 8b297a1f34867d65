from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar import curvature
from tests.curvature.losses import normal


def norms_of(h: Tensor, samples: int) -> Tensor:
    z = normal(5, samples, len(h))
    norms: Tensor = torch.linalg.vector_norm(z @ h.T, dim=1)
    return norms[None]


@pytest.mark.parametrize("rank, ratio", [(1, 0.798), (2, 0.88), (5, 0.95), (50, 0.995)])
def test_mean_norms_lie_between_the_proved_limits(rank: int, ratio: float) -> None:
    basis = torch.linalg.qr(normal(7, 60, 60))[0][:, :rank]
    h = basis @ basis.T
    norms = norms_of(h, 40_000)
    frobenius = math.sqrt(rank)
    assert norms.square().mean().sqrt().item() == pytest.approx(frobenius, rel=0.02)
    assert norms.mean().item() / frobenius == pytest.approx(ratio, abs=0.01)


def test_the_printed_proposition_fails_and_the_corrected_one_is_sharp() -> None:
    # l(x + delta) = (rho v^T delta + 1)^2 / 2 with v = (1, ..., 1) / sqrt(d) has H = q q^T, q = [rho v; 1].
    d, eps = 3072, 8 / 255
    rho = math.sqrt(d) * eps
    v = torch.ones(d, dtype=torch.float64) / math.sqrt(d)
    q = torch.cat([rho * v, torch.ones(1, dtype=torch.float64)])
    worst = 0.5 * (rho * (v * eps).sum() + 1) ** 2
    assert worst.item() == pytest.approx(8.09, abs=0.01)
    # |q^T z| is half-normal, so its mean is known without sampling.
    mean = torch.tensor([[math.sqrt(2 / math.pi) * float(q @ q)]], dtype=torch.float64)
    root = torch.tensor([[float(q @ q)]], dtype=torch.float64)
    here = torch.tensor([0.5], dtype=torch.float64)
    assert curvature.printed_bound(here, mean, rho).item() == pytest.approx(6.44, abs=0.02)
    assert curvature.printed_bound(here, mean, rho) < worst
    torch.testing.assert_close(curvature.corrected_bound(here, mean, rho)[0], worst)
    torch.testing.assert_close(curvature.mean_square_bound(here, root, rho)[0], worst)


@given(st.integers(0, 40), st.floats(0.05, 3))
def test_the_corrected_bounds_hold_for_random_quadratics(seed: int, radius: float) -> None:
    d = 6
    hessian, g = normal(seed, d, d), normal(seed + 1, 1, d)[0]
    hessian = hessian + hessian.T
    h = torch.zeros(d + 1, d + 1, dtype=torch.float64)
    h[:d, :d], h[d, :d], h[:d, d], h[d, d] = hessian, g, g, 1
    norms, zero = norms_of(h, 4000), torch.zeros(1, dtype=torch.float64)
    delta = normal(seed + 2, 2000, d)
    delta = radius * delta / delta.norm(dim=1, keepdim=True)
    reached = (delta @ g + 0.5 * ((delta @ hessian) * delta).sum(dim=1)).max()
    # Sampling errors of the norms stay below 5%.
    assert reached <= 1.05 * curvature.corrected_bound(zero, norms, radius)[0] + 0.05
    assert reached <= 1.05 * curvature.mean_square_bound(zero, norms, radius)[0] + 0.05
