from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from soar import losses, randomness
from soar.errors import UserError


def batch(seed: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    keys = randomness.key(seed, torch.arange(6), "logits")
    logits = 5 * randomness.normal(keys, (classes,), torch.float64)
    labels = randomness.integers(keys, classes)
    targets = (labels + 1) % classes
    return logits, labels, targets


@given(st.integers(0, 1000), st.integers(2, 10))
def test_losses_equal_their_formulas_written_out(seed: int, classes: int) -> None:
    logits, labels, targets = batch(seed, classes)
    for i in range(6):
        z, y, t = logits[i].tolist(), int(labels[i]), int(targets[i])
        ranked = sorted(z, reverse=True)
        best_other = max(v for k, v in enumerate(z) if k != y)
        p = logits[i].softmax(0)
        assert losses.cross_entropy(logits, labels)[i].item() == pytest.approx(-p[y].log().item())
        assert losses.margin(logits, labels)[i].item() == pytest.approx(best_other - z[y])
        scale = ranked[0] - ranked[2] if classes > 2 else 1
        assert losses.dlr(logits, labels)[i].item() == pytest.approx((best_other - z[y]) / scale)
        scale = ranked[0] - (ranked[2] + ranked[3]) / 2 if classes > 3 else 1
        towards = losses.targeted_dlr(logits, labels, targets)[i].item()
        assert towards == pytest.approx((z[t] - z[y]) / scale)


@given(st.integers(0, 1000), st.integers(2, 10))
def test_margins_are_positive_exactly_where_the_model_is_wrong(seed: int, classes: int) -> None:
    logits, labels, _ = batch(seed, classes)
    wrong = logits.argmax(dim=1) != labels
    assert torch.equal(losses.margin(logits, labels) > 0, wrong)
    assert torch.equal(losses.dlr(logits, labels) > 0, wrong)


@given(st.integers(0, 1000), st.integers(3, 10), st.floats(0.1, 50), st.floats(-50, 50))
def test_dlr_ignores_scale_and_shift(seed: int, classes: int, scale: float, shift: float) -> None:
    logits, labels, targets = batch(seed, classes)
    moved = scale * logits + shift
    torch.testing.assert_close(losses.dlr(moved, labels), losses.dlr(logits, labels))
    if classes > 3:
        torch.testing.assert_close(
            losses.targeted_dlr(moved, labels, targets), losses.targeted_dlr(logits, labels, targets)
        )


def test_the_least_likely_of_three_classes_can_be_climbed_to() -> None:
    logits = torch.tensor([[2.0, 1.0, -3.0]], requires_grad=True)
    value = losses.targeted_dlr(logits, torch.tensor([0]), torch.tensor([2]))
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.tolist() == [[-1.0, 0.0, 1.0]]


def test_two_classes_keep_a_gradient() -> None:
    # Divided by the distance of two logits, the ratio would be constant and no attack could climb it.
    logits = torch.tensor([[2.0, 1.0]], requires_grad=True)
    label, target = torch.tensor([0]), torch.tensor([1])
    for value in (losses.dlr(logits, label), losses.targeted_dlr(logits, label, target)):
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        assert gradient.tolist() == [[-1.0, 1.0]]


def test_kl_is_exact_and_has_gradients_through_both_arguments() -> None:
    p = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64).log().requires_grad_()
    r = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64).log().requires_grad_()
    value = losses.kl_divergence(p, r)
    expected = 0.6 * torch.tensor(3.0).log() + 0.1 * torch.tensor(0.2).log()
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)
    assert torch.autograd.gradcheck(losses.kl_divergence, (p, r))


def test_kl_is_finite_for_huge_logits() -> None:
    logits = torch.tensor([[1e4, -1e4]], requires_grad=True)
    value = losses.kl_divergence(logits, -logits.detach())
    assert value.isfinite().all()
    assert torch.autograd.grad(value.sum(), logits)[0].isfinite().all()


def exact_log_other(logits: Tensor, classes: Tensor) -> Tensor:
    """log(1 - p_c) to sixty digits, rounded to float64 at the end."""
    found = []
    with localcontext() as context:
        context.prec = 60
        for row, c in zip(logits.tolist(), classes.tolist(), strict=True):
            powers = [(Decimal(z) - Decimal(max(row))).exp() for z in row]
            others = sum((power for k, power in enumerate(powers) if k != c), Decimal(0))
            found.append(float(others.ln() - sum(powers, Decimal(0)).ln()))
    return torch.tensor(found, dtype=torch.float64)


@given(st.integers(0, 1000), st.integers(2, 10), st.sampled_from([0.1, 1.0, 10.0, 1e3]))
def test_log_other_is_exact_to_the_last_digits(seed: int, classes: int, scale: float) -> None:
    logits, labels, _ = batch(seed, classes)
    exact = exact_log_other(scale * logits, labels)
    found = losses.log_other(scale * logits, labels)
    torch.testing.assert_close(found, exact, rtol=1e-14, atol=1e-14 * max(1.0, scale))
    single = (scale * logits).float()
    exact = exact_log_other(single, labels)
    found = losses.log_other(single, labels).double()
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-5 * max(1.0, scale))


@given(st.integers(0, 1000), st.integers(2, 10), st.sampled_from([1e4, -1e4, 1e6]))
def test_log_other_loses_no_digits_to_a_shift_of_all_logits(seed: int, classes: int, shift: float) -> None:
    logits, labels, _ = batch(seed, classes)
    moved = (logits.float() + shift).requires_grad_()
    found = losses.log_other(moved, labels)
    torch.testing.assert_close(found.double(), exact_log_other(moved, labels), rtol=1e-5, atol=1e-6)
    double = moved.detach().double().requires_grad_()
    (gradient,) = torch.autograd.grad(found.sum(), moved)
    (expected,) = torch.autograd.grad(losses.log_other(double, labels).sum(), double)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-5, atol=1e-6)


def test_log_other_has_the_gradient_of_its_formula() -> None:
    logits, labels, _ = batch(3, 5)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: losses.log_other(z, labels), logits)
    p = logits.softmax(dim=1).gather(1, labels[:, None])[:, 0]
    torch.testing.assert_close(losses.log_other(logits, labels), (1 - p).log())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_other_keeps_its_gradient_where_the_class_is_certain(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, -1e4, -1e4], [-1e4, 1e4, 0.0]], dtype=dtype, requires_grad=True)
    value = losses.log_other(logits, torch.tensor([0, 1]))
    assert value.tolist() == pytest.approx([-2e4 + 0.6931, -1e4], rel=1e-6)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.flatten().tolist() == pytest.approx([-1, 0.5, 0.5, 0, -1, 1], abs=2e-3)


def test_log_other_is_nothing_where_the_class_is_impossible() -> None:
    logits = torch.tensor([[1e4, -1e4, 1.0]], requires_grad=True)
    value = losses.log_other(logits, torch.tensor([1]))
    assert value.item() == 0
    assert torch.autograd.grad(value.sum(), logits)[0].tolist() == [[0, 0, 0]]


@given(st.integers(0, 1000), st.integers(2, 10))
def test_soft_margin_equals_its_formula_and_stays_close_to_the_margin(seed: int, classes: int) -> None:
    logits, labels, _ = batch(seed, classes)
    soft, hard = losses.soft_margin(logits, labels), losses.margin(logits, labels)
    for i, (z, y) in enumerate(zip(logits.tolist(), labels.tolist(), strict=True)):
        others = torch.tensor([v for k, v in enumerate(z) if k != y], dtype=torch.float64)
        assert soft[i].item() == pytest.approx(others.exp().sum().log().item() - z[y], rel=1e-12, abs=1e-12)
    room = torch.tensor(classes - 1.0, dtype=torch.float64).log() + 1e-12
    assert ((soft >= hard - 1e-12) & (soft <= hard + room)).all()
    assert (logits.argmax(dim=1)[soft < 0] == labels[soft < 0]).all()


@given(st.integers(0, 1000), st.integers(2, 10))
def test_soft_margin_and_log_other_are_the_log_odds_of_the_label(seed: int, classes: int) -> None:
    logits, labels, _ = batch(seed, classes)
    soft = losses.soft_margin(logits, labels)
    torch.testing.assert_close(losses.cross_entropy(logits, labels), soft.exp().log1p())
    torch.testing.assert_close(losses.log_other(logits, labels), -soft.neg().exp().log1p())


def test_soft_margin_has_a_gradient_everywhere() -> None:
    logits, labels, _ = batch(3, 5)
    assert torch.autograd.gradcheck(lambda z: losses.soft_margin(z, labels), logits.requires_grad_())
    huge = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    value = losses.soft_margin(huge, torch.tensor([0, 0]))
    assert value.tolist() == [-1e4, 2e4]
    (gradient,) = torch.autograd.grad(value.sum(), huge)
    assert gradient.tolist() == [[-1, 0, 1], [-1, 1, 0]]


def test_targets_are_the_most_likely_wrong_classes() -> None:
    logits = torch.tensor([[9.0, 1.0, 5.0, 7.0]]).repeat(3, 1)
    targets = losses.strongest_targets(logits, torch.tensor([0, 0, 3]), torch.tensor([0, 2, 0]))
    assert targets.tolist() == [3, 1, 0]


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(UserError, match=r"unknown loss 'margn' \(attack.loss\); did you mean 'margin'"):
        losses.check_name("margn", "attack.loss")
