"""Tricks hide gradients and change values as they say; open, they show gradients."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from tests.benchmarks.running import benchmark
from torch import Tensor, nn


@pytest.fixture(scope="module")
def hiding() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        yield benchmark("hiding", patch)


def images(count: int = 6, size: int = 8) -> Tensor:
    return torch.rand(count, 1, size, size, generator=torch.Generator().manual_seed(0))


def gradient(model: nn.Module, x: Tensor) -> Tensor | None:
    x = x.clone().requires_grad_()
    weights = torch.rand(model(x).shape, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad((weights * model(x)).sum() + 0 * x.sum(), x)[0]
    return found if found.any() else None


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


def flat(hiding: ModuleType) -> dict[str, nn.Module]:
    """Tricks whose gradient is zero, or nearly everywhere."""
    return {
        "rounded": hiding.Rounded(8),
        "staircase": hiding.Staircase(4),
        "projected": hiding.Projected(images(40), 10),
        "thermometer": hiding.Thermometer(10),
        "threshold": hiding.Threshold(),
        "cosine": hiding.Cosine(0.1),
        "lookup": hiding.Lookup(16, 2),
        "codebook": hiding.Codebook(images(40), 16),
        "median": hiding.Median(8),
        "nearest": hiding.Nearest(3),
        "votes": hiding.Votes(network()),
    }


NAMES = (
    *("rounded", "staircase", "projected", "thermometer", "threshold", "cosine", "lookup", "codebook"),
    *("median", "nearest", "votes"),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_trick_has_no_gradient_and_an_open_one_has_the_same_values_with_one(
    hiding: ModuleType, name: str
) -> None:
    trick, x = flat(hiding)[name], images()
    assert gradient(trick, x) is None
    model = nn.Sequential(trick)
    shown = hiding.opened(model)
    assert gradient(shown, x) is not None
    assert trick.hides and hiding.tricks(model) == [trick]
    if trick.exact:
        torch.testing.assert_close(shown(x), trick(x))


def test_logits_of_a_saturated_softmax_have_no_gradient_of_the_loss(hiding: ModuleType) -> None:
    x, y = torch.tensor([[9.0, 1.0, -2.0]]), torch.tensor([0])
    for trick in (hiding.Scaled(1000.0), hiding.Clamped(20.0, 1e-6)):
        logits = x.clone().requires_grad_()
        nn.functional.cross_entropy(trick(logits), y).backward()
        assert logits.grad is not None and not logits.grad.any()
        assert torch.equal(hiding.opened(trick)(x), x)
    found = hiding.LogOfMean(nn.Identity(), nn.Identity(), sharpness=300.0)
    torch.testing.assert_close(found(x).exp().sum(), torch.tensor(1.0))
    assert torch.equal(hiding.opened(found)(x), x)


def test_the_gradient_is_reversed_or_moved(hiding: ModuleType) -> None:
    x, model = images(), network()
    true = gradient(model, x)
    assert true is not None
    for trick, expected in ((hiding.Reversed(), -true), (hiding.Scrambled(), true.flip(-2, -1).roll(3, -1))):
        hidden = nn.Sequential(trick, model)
        assert torch.equal(hidden(x), model(x))
        torch.testing.assert_close(gradient(hidden, x), expected, rtol=0, atol=0)
        torch.testing.assert_close(gradient(hiding.opened(hidden), x), true, rtol=0, atol=0)


def test_a_detached_network_leaves_the_gradient_of_the_one_beside_it(hiding: ModuleType) -> None:
    x, main, decoy = images(), network(), network(1)
    hidden = hiding.Detached(main, decoy, 0.5)
    torch.testing.assert_close(hidden(x), main(x) + 0.5 * decoy(x))
    torch.testing.assert_close(gradient(hidden, x), gradient(nn.Sequential(decoy, hiding.Scaled(0.5)), x))
    torch.testing.assert_close(hiding.opened(hidden)(x), hidden(x))


def test_a_detector_detaches_what_it_finds_noisy(hiding: ModuleType) -> None:
    hidden = hiding.Guarded(network(), 0.05)
    smooth, noisy = torch.full((1, 1, 8, 8), 0.5), images(1)
    assert gradient(hidden, smooth) is not None
    assert gradient(hidden, noisy) is None
    assert gradient(hiding.opened(hidden), noisy) is not None
    torch.testing.assert_close(hiding.opened(hidden)(noisy), hidden(noisy))


def test_values_of_single_pixels(hiding: ModuleType) -> None:
    x = torch.tensor([0.0, 0.24, 0.3, 0.62, 1.0]).view(1, 1, 1, 5)
    assert hiding.Rounded(4)(x).flatten().tolist() == [0, 0.25, 0.25, 0.5, 1]
    assert hiding.Staircase(4)(x - 0.01).flatten().tolist() == [0, 0, 0.25, 0.5, 0.75]
    assert hiding.Nearest(3)(x).flatten().tolist() == [0, 0, 0.5, 0.5, 1]
    assert hiding.Threshold()(x).flatten().tolist() == [0, 0, 0, 1, 1]
    code = hiding.Thermometer(2)(x)
    assert code[0, :, 0].tolist() == [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]
    assert hiding.Steep(1000.0)(x - 0.3).round(decimals=3).flatten().tolist() == [0, 0, 0.5, 1, 1]


def test_cosine_transform_is_orthonormal_and_keeps_the_picture_in_small_steps(hiding: ModuleType) -> None:
    trick, x = hiding.Cosine(1e-4), images()
    torch.testing.assert_close(trick.transform @ trick.transform.T, torch.eye(16))
    torch.testing.assert_close(trick(x), x, atol=1e-3, rtol=0)
    flat_picture = torch.full((1, 1, 8, 8), 0.3)
    torch.testing.assert_close(hiding.Cosine(0.4)(flat_picture), flat_picture)


def test_a_projection_keeps_what_it_is_made_of(hiding: ModuleType) -> None:
    x = images(5)
    torch.testing.assert_close(hiding.Projected(x, 4)(x), x, atol=1e-4, rtol=0)


def test_a_codebook_keeps_its_own_patches_and_returns_only_these(hiding: ModuleType) -> None:
    trick = hiding.Codebook(images(40), 16)
    own = trick.patches[[0, 3, 7, 12]].T[None]
    x = nn.functional.fold(own, (8, 8), 4, stride=4)
    assert torch.equal(trick(x), x)


def test_levels_are_looked_up_and_interpolated(hiding: ModuleType) -> None:
    trick = hiding.Lookup(5, 2)
    x = torch.tensor([0.25, 0.375]).view(1, 1, 1, 2)
    table = trick.table.weight
    torch.testing.assert_close(trick(x[..., :1]).flatten(), table[1])
    torch.testing.assert_close(trick.soft(x)[0, :, 0, 1], (table[1] + table[2]) / 2)


def test_winners_are_the_largest(hiding: ModuleType) -> None:
    x = torch.tensor([[1.0, -3.0, 4.0, 2.0]])
    assert hiding.Winners(0.5)(x).tolist() == [[0.0, 0.0, 4.0, 2.0]]


def test_the_median_ignores_a_single_pixel(hiding: ModuleType) -> None:
    x = torch.zeros(1, 1, 5, 5)
    x[0, 0, 2, 2] = 1
    assert not hiding.Median(8)(x).any()
    assert hiding.Median(8).soft(x)[0, 0, 2, 2].item() == pytest.approx(1 / 9)


def test_votes_are_shares_of_shifted_copies(hiding: ModuleType) -> None:
    class Bright(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            corner = x[:, 0, 0, 0]
            return torch.stack([corner - 0.5, 0.5 - corner], dim=1)

    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 0, :2] = 1
    expected = torch.tensor([[2 / 9, 7 / 9 - 1e-3]])
    torch.testing.assert_close(hiding.Votes(Bright())(x), expected)


def test_a_ripple_is_small_and_steep(hiding: ModuleType) -> None:
    x, trick = images(), hiding.Ripple(0.01, 900.0)
    assert (trick(x) - x).abs().max() <= 0.01
    steep = gradient(nn.Sequential(trick, network()), x)
    true = gradient(network(), x)
    assert steep is not None and true is not None
    assert 0.3 < (steep.sign() != true.sign()).double().mean() < 0.7


def test_random_tricks_differ_from_call_to_call(hiding: ModuleType) -> None:
    x = images()
    for trick in (hiding.Noisy(0.1), hiding.Moved(3)):
        calls = torch.stack([trick(x) for _ in range(4)])
        assert calls.shape[1:] == x.shape
        assert calls.std(dim=0).any()
        assert torch.equal(hiding.opened(trick)(x), x)
