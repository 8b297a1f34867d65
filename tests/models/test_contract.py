"""What every registered network promises: shapes, derivatives of all orders, no hidden state."""

import inspect
import unittest.mock
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar import models
from soar.models.layers import Activation

SMALL: dict[str, dict[str, Any]] = {
    "cnn6": {"width": 2, "hidden": 8},
    "cnn8": {"width": 4, "hidden": 8},
    # Below 8 channels oneDNN corrupts the heap in a strided 1x1 convolution in channels_last.
    "resnet10": {"width": 8},
    "resnet18": {"width": 8},
    "wide_resnet": {"depth": 10, "widen_factor": 1},
}
NORMS = ["none", "batch", "group"]
SMOOTH = [name for name in get_args(Activation) if name != "relu"]
NAMES = [entry.name for entry in models.MODELS]


def small(name: str, *, image_shape: tuple[int, int, int] = (3, 32, 32), **more: Any) -> nn.Module:
    options = {"groups": 2, **SMALL[name], **more}
    return models.build(name, seed=0, num_classes=4, image_shape=image_shape, options=options)


def pixels(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def test_every_model_is_listed_with_a_sentence() -> None:
    assert set(SMALL) == set(NAMES)
    for entry in models.MODELS:
        assert entry.description.endswith("parameters."), entry


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("image_shape", [(1, 28, 28), (3, 32, 32), (3, 20, 32)])
@pytest.mark.parametrize("num_classes", [2, 10])
def test_default_network_gives_finite_logits(
    name: str, image_shape: tuple[int, int, int], num_classes: int
) -> None:
    options = {"depth": 10, "widen_factor": 2} if name == "wide_resnet" else {}
    network = models.build(name, seed=0, num_classes=num_classes, image_shape=image_shape, options=options)
    logits = network.eval()(pixels(2, *image_shape))
    assert logits.shape == (2, num_classes)
    assert torch.isfinite(logits).all()
    assert logits.std() > 0


@pytest.mark.parametrize("name", NAMES)
def test_options_are_keyword_only_and_bound_from_text(name: str) -> None:
    parameters = inspect.signature(models.MODELS[name].build).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    assert list(parameters)[:2] == ["num_classes", "image_shape"]
    assert set(kinds[2:]) == {inspect.Parameter.KEYWORD_ONLY}
    text = {"conv_bias": "true", "norm": "group", "groups": "2", "input_normalization": "svhn"}
    network = models.build(name, seed=0, options={**SMALL[name], **text})
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert all(convolution.bias is not None for convolution in convolutions)
    assert any(isinstance(module, nn.GroupNorm) for module in network.modules())


@pytest.mark.parametrize("name", NAMES)
def test_statistics_come_from_a_table(name: str) -> None:
    table = {"mean": [0.1, 0.2, 0.3], "std": [1, 2, 4]}
    network = small(name, input_normalization=table)
    x = pixels(1, 3, 32, 32)
    expected = (x - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor([1.0, 2.0, 4.0]).view(3, 1, 1)
    torch.testing.assert_close(network.get_submodule("normalization")(x), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_agree_with_finite_differences(name: str, norm: str) -> None:
    network = small(name, image_shape=(1, 16, 16), norm=norm).double().eval()
    x = pixels(2, 1, 16, 16, dtype=torch.float64).requires_grad_()
    y = torch.tensor([0, 3])

    def loss(inputs: Tensor) -> Tensor:
        # Rectifiers have no curvature: the cross-entropy and the standardization supply it.
        return F.cross_entropy(network(inputs), y, reduction="sum")

    assert torch.autograd.gradcheck(loss, (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(loss, (x,), fast_mode=True)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NAMES)
def test_gradient_norm_trains_the_weights(name: str, norm: str, memory_format: torch.memory_format) -> None:
    network = small(name, norm=norm).train()
    network.to(memory_format=memory_format)  # type: ignore[call-overload]
    x = pixels(4, 3, 32, 32).to(memory_format=memory_format).requires_grad_()
    loss = F.cross_entropy(network(x), torch.tensor([0, 1, 2, 3]))
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    gradient.square().sum().backward()
    for key, parameter in network.named_parameters():
        if key.endswith("weight") and parameter.dim() > 1:
            assert parameter.grad is not None, key
            assert torch.isfinite(parameter.grad).all(), key
            assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("name", NAMES)
def test_a_smooth_activation_takes_the_place_of_every_relu(name: str, activation: str) -> None:
    network, rectified = (small(name, activation=one).eval() for one in (activation, "relu"))
    x = pixels(2, 3, 32, 32)
    with unittest.mock.patch("torch.nn.functional.relu", side_effect=AssertionError):
        logits = network(x)
    # Saved weights fit whatever the activation.
    rectified.load_state_dict(network.state_dict())
    assert not torch.allclose(rectified(x), logits, rtol=1e-3)


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_smooth_networks_agree_with_finite_differences(name: str, activation: str) -> None:
    network = small(name, image_shape=(1, 16, 16), activation=activation).double().train()
    x = pixels(2, 1, 16, 16, dtype=torch.float64).requires_grad_()
    weight = next(p for key, p in network.named_parameters() if key.endswith("weight") and p.dim() == 4)

    def loss(inputs: Tensor) -> Tensor:
        return F.cross_entropy(network(inputs), torch.tensor([0, 3]), reduction="sum")

    def gradient_norm() -> Tensor:
        (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
        return gradient.square().sum()

    assert torch.autograd.gradcheck(loss, (x,), fast_mode=True)
    (slope,) = torch.autograd.grad(gradient_norm(), weight)
    nudge = 1e-5 * pixels(*weight.shape, dtype=torch.float64)
    with torch.no_grad():
        weight.add_(nudge)
    above = gradient_norm().item()
    with torch.no_grad():
        weight.sub_(2 * nudge)
    below = gradient_norm().item()
    assert float((slope * nudge).sum()) == pytest.approx((above - below) / 2, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_channels_last_gives_the_same_logits(name: str) -> None:
    network = small(name).double().eval()
    x = pixels(2, 3, 32, 32, dtype=torch.float64)
    expected = network(x)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    torch.testing.assert_close(network(x.to(memory_format=torch.channels_last)), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NAMES)
def test_evaluation_leaves_no_trace_and_images_do_not_mix(name: str, norm: str) -> None:
    network = small(name, norm=norm).double().eval()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    x = pixels(3, 3, 32, 32, dtype=torch.float64)
    together = network(x)
    torch.testing.assert_close(network(x[2:]), together[2:])
    for key, value in network.state_dict().items():
        assert torch.equal(value, before[key]), key
