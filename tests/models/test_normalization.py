import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.errors import UserError
from soar.models import STATISTICS, Statistics, standardize
from soar.models.layers import FixedNormalization, normalization_layer


def images(seed: int, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


@given(seed=st.integers(0, 2**31), scale=st.sampled_from([1.0, 1e-3]))
def test_standardize_is_the_formula_of_each_image(seed: int, scale: float) -> None:
    x = scale * images(seed, 3, 2, 4, 5)
    for image, result in zip(x, standardize(x), strict=True):
        values = image.flatten().tolist()
        d = len(values)
        mean = math.fsum(values) / d
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (d - 1))
        expected = [(value - mean) / max(std, 1 / math.sqrt(d)) for value in values]
        torch.testing.assert_close(result.flatten(), torch.tensor(expected, dtype=torch.float64))


@given(
    seed=st.integers(0, 2**31),
    contrast=st.floats(0.3, 1.0),
    brightness=st.floats(-0.5, 0.5),
)
def test_standardize_ignores_brightness_and_contrast(seed: int, contrast: float, brightness: float) -> None:
    x = images(seed, 2, 3, 16, 16)  # deviation about 0.29, far above the floor 0.036
    torch.testing.assert_close(standardize(contrast * x + brightness), standardize(x))


def test_images_do_not_influence_each_other() -> None:
    x = images(0, 4, 3, 8, 8)
    torch.testing.assert_close(standardize(x)[1:2], standardize(x[1:2]), rtol=0, atol=0)


def test_constant_image_gives_zero_with_finite_derivatives() -> None:
    x = torch.full((1, 1, 4, 4), 0.5, dtype=torch.float64, requires_grad=True)
    y = standardize(x)
    assert torch.equal(y, torch.zeros_like(y))
    (first,) = torch.autograd.grad(y.pow(3).sum() + y[0, 0, 0, 0], x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    # Below the floor the map is linear: 4 * (x - mean), and its first entry has this gradient.
    assert first[0, 0, 0, 0].item() == pytest.approx(4 * 15 / 16)
    assert torch.isfinite(second).all()


def test_single_value_image_is_finite() -> None:
    assert torch.equal(standardize(torch.ones(2, 1, 1, 1)), torch.zeros(2, 1, 1, 1))


def test_fixed_normalization_subtracts_and_divides_each_channel() -> None:
    layer = normalization_layer(Statistics((0.5, 0.25), (0.5, 0.125)), 2)
    x = torch.tensor([[[[1.0]], [[0.5]]]])
    assert layer(x).flatten().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", sorted(STATISTICS))
def test_named_statistics_equal_given_ones(name: str) -> None:
    statistics = STATISTICS[name]
    channels = len(statistics.mean)
    x = torch.rand(1, channels, 2, 2, generator=torch.Generator().manual_seed(0))
    named, given_ = (normalization_layer(choice, channels) for choice in (name, statistics))
    assert isinstance(named, FixedNormalization)
    assert torch.equal(named(x), given_(x))


def test_none_changes_nothing() -> None:
    x = torch.rand(1, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(normalization_layer("none", 3)(x), x)


@pytest.mark.parametrize(
    "choice, message",
    [
        (
            "cifar-10",
            "unknown input normalization 'cifar-10' (model.input_normalization); did you mean "
            "'cifar10'? Allowed: cifar10, fashion-mnist, none, per-image, svhn",
        ),
        (
            "cifar10",
            "model.input_normalization.mean: got (0.4914, 0.4822, 0.4465), expected 1 numbers, one "
            "per channel (flag --model.input_normalization.mean)",
        ),
        (
            Statistics((0.5,), (0.0,)),
            "model.input_normalization.std: got (0.0,), expected positive numbers "
            "(flag --model.input_normalization.std)",
        ),
    ],
)
def test_bad_choice_is_one_line(choice: str | Statistics, message: str) -> None:
    with pytest.raises(UserError) as caught:
        normalization_layer(choice, 1)
    assert str(caught.value) == message
