from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.errors import UserError
from soar.training.muon import Muon, orthogonalized
from tests.training import small


def matrix(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def near_one(values: Tensor) -> Tensor:
    """What five iterations make of singular values, one by one."""
    values = values / values.norm()
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return values


@pytest.mark.parametrize("shape", [(4, 36), (6, 6), (12, 3), (1, 5), (5, 1)])
def test_singular_vectors_stay_and_singular_values_come_near_one(shape: tuple[int, int]) -> None:
    """The oracle: the same polynomial of the singular values that an SVD finds."""
    given = matrix(*shape)
    left, values, right = torch.linalg.svd(given, full_matrices=False)
    expected = left @ torch.diag(near_one(values)) @ right
    torch.testing.assert_close(orthogonalized(given), expected, rtol=1e-9, atol=1e-10)
    found = torch.linalg.svdvals(orthogonalized(given))
    assert found.min() > 0.68 and found.max() < 1.21


def test_only_the_direction_counts_and_zeros_stay() -> None:
    given = matrix(4, 9)
    torch.testing.assert_close(orthogonalized(1e-6 * given), orthogonalized(given))
    assert torch.equal(orthogonalized(torch.zeros(3, 4)), torch.zeros(3, 4))


def test_the_order_of_columns_and_so_the_memory_format_does_not_matter() -> None:
    given = matrix(4, 18)
    order = torch.randperm(18, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(orthogonalized(given[:, order]), orthogonalized(given)[:, order])


def test_a_tall_matrix_is_the_transpose_of_a_wide_one() -> None:
    given = matrix(9, 4)
    assert torch.equal(orthogonalized(given), orthogonalized(given.T).T)


def model() -> nn.Sequential:
    return small.deep_network(dtype=torch.float64)


def set_gradients(made: nn.Module, seed: int) -> None:
    for parameter in made.parameters():
        parameter.grad = matrix(*parameter.shape, seed=seed)


@pytest.mark.parametrize("nesterov", [True, False])
def test_two_steps_written_out(nesterov: bool) -> None:
    made = model()
    optimizer = Muon([*made.parameters()], lr=0.1, momentum=0.85, nesterov=nesterov, weight_decay=0.01)
    expected = {name: w.detach().clone() for name, w in made.named_parameters()}
    buffers = {name: torch.zeros_like(w) for name, w in expected.items()}
    for seed in (1, 2):
        set_gradients(made, seed)
        for name, w in expected.items():
            gradient = matrix(*w.shape, seed=seed)
            if name == "2.weight":
                buffers[name] = 0.6 * buffers[name] + gradient
                mixed = (gradient + 0.6 * buffers[name]).reshape(4, 27)
                left, values, right = torch.linalg.svd(mixed, full_matrices=False)
                step = (left @ torch.diag(near_one(values)) @ right).reshape(4, 3, 3, 3)
                expected[name] = 2 * w / w.norm() - 0.1 * step
            else:
                gradient = gradient + 0.01 * w
                buffers[name] = 0.85 * buffers[name] + gradient
                step = gradient + 0.85 * buffers[name] if nesterov else buffers[name]
                expected[name] = w - 0.05 * step
        optimizer.step()
    for name, w in made.named_parameters():
        torch.testing.assert_close(w.detach(), expected[name], rtol=1e-9, atol=1e-11)


def test_what_it_does_not_orthogonalize_goes_as_by_sgd() -> None:
    ours, theirs = model(), model()
    options: dict[str, Any] = {"momentum": 0.8, "nesterov": True, "weight_decay": 0.01}
    muon = Muon([*ours.parameters()], lr=0.2, **options)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.1, **options)
    for seed in range(3):
        for made, optimizer in ((ours, muon), (theirs, sgd)):
            set_gradients(made, seed)
            optimizer.step()
    after = dict(theirs.named_parameters())
    for name, w in ours.named_parameters():
        assert torch.allclose(w, after[name], rtol=1e-12) == (name != "2.weight"), name


def test_both_memory_formats_give_the_same_filter() -> None:
    plain, last = model(), model().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for made in (plain, last):
        optimizer = Muon([*made.parameters()], lr=0.1)
        set_gradients(made, 0)
        optimizer.step()
    assert last[2].weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(plain[2].weight, last[2].weight)


def test_a_filter_of_zeros_begins_to_move() -> None:
    made = model()
    weight = made.get_parameter("2.weight")
    nn.init.zeros_(weight)
    optimizer = Muon([*made.parameters()], lr=0.1)
    set_gradients(made, 0)
    optimizer.step()
    values = torch.linalg.svdvals(weight.detach().flatten(1))
    assert values.min() > 0.068 and values.max() < 0.121


def test_without_a_second_convolution_there_is_nothing_for_muon(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"got muon, but the model has no convolution after its first one"):
        small.trainer(tmp_path, optimizer="muon")
