from __future__ import annotations

import math

import pytest
import torch
from tools.theory.expansion import SecondOrderExpansion
from torch import Tensor

from soar.curvature import Direction
from soar.objectives.starts import Start
from soar.threat import Linf
from tests.theory.quadratics import Case, quadratic_case
from tools.theory import derivation as theory

EPS, SLOPE = 0.1, 0.7
RHO = 0.2
"""sqrt(4) eps"""
RISE = ((SLOPE * RHO + 1) ** 2 - 1) / 2


def measure(case: Case, samples: int, start: str = "zero") -> list[theory.Tightness]:
    return theory.measure(
        case.model, case.threat, case.x, case.y, index=case.index, samples=samples, start=start
    )


@pytest.fixture(scope="module")
def examples() -> list[theory.Tightness]:
    return measure(quadratic_case(EPS, SLOPE), samples=30)


@pytest.mark.parametrize(
    "name, value",
    [
        (theory.SHOWN, RISE),
        (theory.LOSS, RISE),
        (theory.LOSS_L2, RISE),
        (theory.FIRST, SLOPE * RHO),
        (theory.SECOND, RISE),
        (theory.SECOND_L2, RISE),
        # H = q q^T with q = [slope v; 1] has rank one.
        (theory.SPECTRAL, (RHO**2 + 1) / 2 * (SLOPE**2 + 1) - 0.5),
        (theory.FROBENIUS, (RHO**2 + 1) / 2 * (SLOPE**2 + 1) - 0.5),
        (theory.CORNER_FREE, math.sqrt(RHO**4 * SLOPE**4 + 2 * RHO**2 * SLOPE**2)),
        (theory.EXPECTED, math.sqrt(2 / math.pi) * (RHO**2 + 1) / 2 * (SLOPE**2 + 1) - 0.5),
        (theory.CORRECTED, (RHO**2 + 1) / 2 * (SLOPE**2 + 1) - 0.5),
    ],
)
def test_every_step_on_a_quadratic_loss_is_its_closed_form(
    examples: list[theory.Tightness], name: str, value: float
) -> None:
    assert [example.gains[name] for example in examples] == pytest.approx([value] * 3, rel=1e-6)


def test_curvature_in_one_direction_has_stable_rank_one(examples: list[theory.Tightness]) -> None:
    assert [example.stable_rank for example in examples] == pytest.approx([1] * 3)


def test_differences_of_a_quadratic_loss_are_exact_for_every_step(examples: list[theory.Tightness]) -> None:
    for example in examples:
        assert set(example.norms) == {theory.EXACT, "h 0.01", "h 0.5"}
        for norms in example.norms.values():
            torch.testing.assert_close(norms, example.norms[theory.EXACT], rtol=1e-6, atol=1e-8)


def test_images_meet_their_own_directions(examples: list[theory.Tightness]) -> None:
    first, second, _ = (example.norms[theory.EXACT] for example in examples)
    assert not torch.allclose(first, second)


def test_a_start_moves_half_way_and_leaves_half_of_the_ball() -> None:
    case = quadratic_case(EPS, SLOPE)
    left = RHO / 2
    assert theory.remaining_ball(case.threat, "pgd-1").enclosing_l2_radius(4) == pytest.approx(left)
    moved, _ = Start("pgd-1", share=0.5).find(
        case.model, case.threat, case.x, case.y, index=case.index, seed=0, step=0
    )
    there = SLOPE * (moved - case.x).flatten(1).sum(dim=1) / 2 + 1
    assert bool((there > 1).all()) and bool((there <= 1 + SLOPE * left).all())
    found = measure(case, samples=2, start="pgd-1")
    for example, level in zip(found, there.tolist(), strict=True):
        rise = ((level + SLOPE * left) ** 2 - level**2) / 2
        assert example.gains[theory.FIRST] == pytest.approx(level * SLOPE * left, rel=1e-6)
        assert example.gains[theory.LOSS] == pytest.approx(rise, rel=1e-6)
        assert example.gains[theory.SECOND_L2] == pytest.approx(rise, rel=1e-6)


def test_a_point_found_in_one_ball_counts_in_the_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rises = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr(theory, "largest_gain", lambda *_, **__: torch.full((3,), next(rises)).double())
    (first, *_) = measure(quadratic_case(EPS, SLOPE), samples=2)
    assert [first.gains[name] for name in (theory.SHOWN, theory.LOSS, theory.LOSS_L2)] == [3, 3, 3]


def test_sampled_norms_are_those_of_the_augmented_matrix() -> None:
    def loss(points: Tensor) -> Tensor:
        return points.flatten(1).pow(3).sum(dim=1)

    x = torch.tensor([[[[1.0, 2.0]]]], dtype=torch.float64)
    expansion = SecondOrderExpansion(3 * x.flatten().square(), (6 * x.flatten()).diag())
    z = Direction(torch.tensor([[[[1.0, 0.0]]]], dtype=torch.float64), torch.tensor([2.0]).double())
    # H z = [6 * 1 + 2 * 3, 0 + 2 * 12, 3 * 1 + 2]
    norms = theory.sampled_norms(loss, x, expansion, z)
    assert norms[theory.EXACT].item() == pytest.approx(math.sqrt(12**2 + 24**2 + 5**2))
    # The difference sees the third derivative: 3 h more along the first pixel.
    assert norms["h 0.5"].item() == pytest.approx(math.sqrt(13.5**2 + 24**2 + 5**2))


def test_bounds_are_in_the_order_of_the_proof() -> None:
    generator = torch.Generator().manual_seed(0)
    square = torch.randn(9, 9, generator=generator, dtype=torch.float64)
    expansion = SecondOrderExpansion(square[0], square + square.T)
    found = theory.bounds_of(expansion, Linf(0.2), torch.randn(5, 9, generator=generator).double())
    chain = [theory.SECOND, theory.SECOND_L2, theory.SPECTRAL, theory.FROBENIUS, theory.CORRECTED]
    values = [found[name] for name in chain]
    assert values == sorted(values)
    assert found[theory.EXPECTED] < found[theory.FROBENIUS]


def test_the_loss_of_a_confident_network_keeps_its_derivatives() -> None:
    linear = torch.nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[20.0] * 4, [0.0] * 4]))
    model = torch.nn.Sequential(torch.nn.Flatten(), linear)
    x = torch.full((1, 1, 2, 2), 0.5, requires_grad=True)
    loss = theory.loss_in_double(model, torch.zeros(1, dtype=torch.int64))
    (gradient,) = torch.autograd.grad(loss(x).sum(), x)
    # p of the wrong class is e^-40, which 1 - p of the right one cannot hold in single precision.
    torch.testing.assert_close(gradient.flatten(), torch.full((4,), -20 * 4.248354255291589e-18))
