from __future__ import annotations

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
        if classes > 3:
            scale = ranked[0] - (ranked[2] + ranked[3]) / 2
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
    torch.testing.assert_close(
        losses.targeted_dlr(moved, labels, targets), losses.targeted_dlr(logits, labels, targets)
    )


def test_two_classes_keep_a_slope() -> None:
    # Divided by the distance of two logits, the ratio would be constant and no attack could climb it.
    logits = torch.tensor([[2.0, 1.0]], requires_grad=True)
    label, target = torch.tensor([0]), torch.tensor([1])
    for value in (losses.dlr(logits, label), losses.targeted_dlr(logits, label, target)):
        (slope,) = torch.autograd.grad(value.sum(), logits)
        assert slope.tolist() == [[-1.0, 1.0]]


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


def test_targets_are_the_most_likely_wrong_classes() -> None:
    logits = torch.tensor([[9.0, 1.0, 5.0, 7.0]]).repeat(3, 1)
    targets = losses.strongest_targets(logits, torch.tensor([0, 0, 3]), torch.tensor([0, 2, 0]))
    assert targets.tolist() == [3, 1, 0]


def test_unknown_losses_are_refused() -> None:
    with pytest.raises(UserError, match=r"unknown loss 'margn' \(attack.loss\); did you mean 'margin'"):
        losses.check_name("margn", "attack.loss")
