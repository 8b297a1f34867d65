from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from soar.fuse import fuse_batch_norm
from soar.models import build

# Batch norms of each network, and how many of them stay: in wide_resnet those behind a sum.
NETWORKS: dict[str, tuple[dict[str, Any], int, int]] = {
    "cnn6": ({"width": 4, "hidden": 8, "norm": "batch"}, 4, 0),
    "resnet10": ({"width": 4, "norm": "batch"}, 12, 0),
    "resnet18": ({"width": 4, "norm": "batch"}, 20, 0),
    "wide_resnet": ({"depth": 10, "widen_factor": 2, "norm": "batch"}, 7, 3),
}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lived_in(model: nn.Module, seed: int = 0) -> nn.Module:
    """Give every batch norm statistics, scales and shifts as after training; some scales are negative."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is not None and module.running_var is not None:
                module.running_mean.normal_(0, 0.3, generator=generator)
                module.running_var.uniform_(0.5, 2, generator=generator)
            if module.affine:
                module.weight.data.uniform_(-0.5, 1.5, generator=generator)
                module.bias.data.normal_(0, 0.3, generator=generator)
    return model


def network(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    options, _, _ = NETWORKS[name]
    return lived_in(build(name, seed=0, image_shape=(3, 20, 20), options=options)).to(dtype).eval()


def pair(channels: int = 4, **options: Any) -> nn.Sequential:
    layers = nn.Sequential(nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels, **options), nn.ReLU())
    lived_in(layers.append(nn.Flatten()))
    return layers.double().eval()


def images(dtype: torch.dtype = torch.float64) -> Tensor:
    return numbers(3, 3, 20, 20).to(dtype)


def input_gradient(model: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(model(x), torch.arange(len(x))), x)[0]


def fused(model: nn.Module, sample: Tensor) -> nn.Module:
    found = fuse_batch_norm(model, sample)
    assert found is not None
    return found


def norms_in(model: nn.Module) -> int:
    return sum(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


def gap(one: Tensor, other: Tensor) -> float:
    return ((one - other).abs().max() / one.abs().max()).item()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype, allowed", [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_logits_and_input_gradients_stay(name: str, dtype: torch.dtype, allowed: float) -> None:
    model, x = network(name, dtype), images(dtype)
    found = fused(model, x[:1])
    _, norms, left = NETWORKS[name]
    assert (norms_in(model), norms_in(found)) == (norms, left)
    assert type(found) is type(model)
    assert gap(model(x), found(x)) < allowed
    assert gap(input_gradient(model, x), input_gradient(found, x)) < 10 * allowed


def test_preactivation_networks_fuse_the_second_norm_of_each_block() -> None:
    model = fused(network("wide_resnet"), images())
    kinds = {name: type(module).__name__ for name, module in model.named_modules() if "norm" in name}
    assert all(kinds[f"blocks.{index}.norm2"] == "Identity" for index in range(3))
    assert kinds["blocks.1.norm1"] == kinds["blocks.2.norm1"] == kinds["norm"] == "BatchNorm2d"


@given(
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    groups=st.sampled_from([1, 2]),
    bias=st.booleans(),
    affine=st.booleans(),
    padding_mode=st.sampled_from(["zeros", "reflect", "circular"]),
    seed=st.integers(0, 99),
)
def test_every_kind_of_convolution_fuses(
    kernel: int, stride: int, groups: int, bias: bool, affine: bool, padding_mode: Any, seed: int
) -> None:
    conv = nn.Conv2d(
        4,
        6,
        kernel,
        stride,
        padding=1,
        groups=groups,
        bias=bias,
        padding_mode=padding_mode,
        dtype=torch.float64,
    )
    norm = nn.BatchNorm2d(6, affine=affine, eps=0.1, dtype=torch.float64)
    model, x = lived_in(nn.Sequential(conv, norm), seed).eval(), numbers(2, 4, 6, 6, seed=seed)
    found = fused(model, x)
    assert norms_in(found) == 0
    torch.testing.assert_close(found(x), model(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "layers, shape",
    [
        ([nn.Linear(5, 4), nn.BatchNorm1d(4)], (3, 5)),
        ([nn.Linear(5, 4, bias=False), nn.BatchNorm1d(4)], (3, 5)),
        ([nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4)], (3, 2, 7)),
        ([nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4)], (3, 2, 4, 4, 4)),
        ([nn.Conv2d(2, 4, 3), nn.SyncBatchNorm(4)], (3, 2, 5, 5)),
    ],
    ids=["linear", "linear without bias", "conv1d", "conv3d", "sync"],
)
def test_other_pairs_fuse_too(layers: list[nn.Module], shape: tuple[int, ...]) -> None:
    model, x = lived_in(nn.Sequential(*layers)).double().eval(), numbers(*shape)
    found = fused(model, x)
    assert norms_in(found) == 0
    torch.testing.assert_close(found(x), model(x), rtol=1e-12, atol=1e-12)


def test_the_given_model_is_neither_changed_nor_called() -> None:
    model = network("resnet10")
    model.train()
    model.get_submodule("blocks.1").eval()
    model.get_parameter("linear.bias").requires_grad_(False)
    model.get_parameter("stem.weight").grad = torch.ones(4, 3, 3, 3, dtype=torch.float64)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modules = dict(model.named_modules())
    tensors = {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    generator = torch.get_rng_state()
    assert norms_in(fused(model, images())) == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert dict(model.named_modules()) == modules
    assert {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()} == tensors
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert {name: set(vars(module)) for name, module in model.named_modules()} == attributes
    assert torch.equal(torch.get_rng_state(), generator)


def test_the_copy_is_frozen_in_eval_mode_and_shares_nothing() -> None:
    model = network("wide_resnet").train()
    model.get_parameter("stem.weight").grad = torch.ones(16, 3, 3, 3, dtype=torch.float64)
    copied, x = fused(model, images()), images()
    assert not any(module.training for module in copied.modules())
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in copied.parameters())
    before = copied(x)
    for tensor in model.state_dict().values():
        tensor.zero_()
    assert torch.equal(copied(x), before)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_weights_keep_their_layout(layout: torch.memory_format) -> None:
    model = network("resnet10").to(memory_format=layout)  # type: ignore[call-overload]
    copied = fused(model, images())
    for name, parameter in copied.named_parameters():
        if parameter.dim() == 4:
            assert parameter.stride() == model.get_parameter(name).stride(), name


class Around(nn.Module):
    """A pair that fuses, and whatever a test does with it."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.conv, self.norm, *_ = pair().children()
        self.body = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor, keep: bool = False) -> Any:
        result = self.body(self, x)
        if keep:
            self.kept = result
        return result


def test_options_of_forward_take_their_defaults() -> None:
    model, x = Around(lambda self, x: self.norm(self.conv(x))).double().eval(), images()
    found = fused(model, x)
    assert norms_in(found) == 0
    torch.testing.assert_close(found(x, keep=True), model(x), rtol=1e-12, atol=1e-12)


def test_a_module_known_by_two_names_is_replaced_under_both() -> None:
    model = Around(lambda self, x: self.alias.norm(self.layers[0](x)))
    model.layers, model.alias = nn.ModuleList([model.conv, model.norm]), nn.ModuleDict({"norm": model.norm})
    found = fused(model.double().eval(), images())
    assert norms_in(found) == 0


def test_activations_in_place_do_not_disturb_gradients() -> None:
    model = nn.Sequential(*list(pair())[:2], nn.ReLU(inplace=True), nn.Flatten())
    found, x = fused(model, images()), images()
    assert norms_in(found) == 0
    assert gap(input_gradient(model, x), input_gradient(found, x)) < 1e-11


def test_layers_that_share_a_tensor_get_one_each() -> None:
    model = lived_in(
        nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    )
    assert isinstance(model, nn.Sequential)
    model[2].weight = model[0].weight
    found, x = fused(model.double().eval(), images()), images()
    assert norms_in(found) == 0
    torch.testing.assert_close(found(x), model(x), rtol=1e-12, atol=1e-12)


def test_pairs_that_cannot_fuse_do_not_keep_others_from_it() -> None:
    model = nn.Sequential(pair(3)[:3], pair(3, track_running_stats=False)[:3], pair(3)).double().eval()
    found, x = fused(model, images()), images()
    assert norms_in(found) == 1
    torch.testing.assert_close(found(x), model(x), rtol=1e-12, atol=1e-12)


def hooked(register: str) -> nn.Module:
    model = pair()
    getattr(model[2], register)(lambda *given: None)
    return model


def parametrized() -> nn.Module:
    model = pair()
    parametrizations.weight_norm(model[0])
    return model


def uncopyable() -> nn.Module:
    model = pair()
    model.register_buffer("twice", model.get_parameter("0.weight") * 2)
    return model


class Stubborn(nn.BatchNorm2d):
    pass


class AlwaysTraining(nn.Sequential):
    def train(self, mode: bool = True) -> AlwaysTraining:
        return super().train(True)


def counting(self: Any, x: Tensor) -> Tensor:
    self.calls = getattr(self, "calls", 0) + 1
    result: Tensor = self.norm(self.conv(x)) * self.calls
    return result


def hidden_norm(self: Any, x: Tensor) -> Tensor:
    """Keeps its norm where PyTorch does not see it."""
    self.hidden = getattr(self, "hidden", [self.norm])
    result: Tensor = self.hidden[0](self.conv(x))
    return result


REFUSALS: dict[str, Callable[[], nn.Module]] = {
    "no norm": lambda: nn.Sequential(nn.Flatten(), nn.Linear(1200, 2).double()),
    "no pair": lambda: nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 1)),
    "subclass": lambda: nn.Sequential(nn.Conv2d(3, 2, 1), Stubborn(2)),
    "activation between": lambda: nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU(), nn.BatchNorm2d(2)),
    "transposed": lambda: nn.Sequential(nn.ConvTranspose2d(3, 2, 1), nn.BatchNorm2d(2)),
    "forward hook": lambda: hooked("register_forward_hook"),
    "forward pre-hook": lambda: hooked("register_forward_pre_hook"),
    "backward hook": lambda: hooked("register_full_backward_hook"),
    "backward pre-hook": lambda: hooked("register_full_backward_pre_hook"),
    "parametrization": parametrized,
    "no copy": uncopyable,
    "control flow": lambda: Around(lambda self, x: self.norm(self.conv(x)) if x.sum() > 0 else x),
    "two users": lambda: Around(lambda self, x: self.norm(y := self.conv(x)) + y),
    "convolution twice": lambda: Around(lambda self, x: self.norm(self.conv(x)) + self.conv(x)),
    "norm twice": lambda: Around(lambda self, x: self.norm(self.norm(self.conv(x)))),
    "weights read": lambda: Around(lambda self, x: self.norm(self.conv(x)) + self.conv.weight.sum()),
    "no statistics": lambda: pair(track_running_stats=False),
    "no scale": lambda: nn.Sequential(nn.Flatten(), nn.Linear(1200, 2), nn.BatchNorm1d(2, affine=False)),
    "training mode": lambda: AlwaysTraining(*pair()),
    "channels in the middle": lambda: nn.Sequential(nn.Flatten(1, 2), nn.Linear(20, 7), nn.BatchNorm1d(60)),
    "as many channels in the middle": lambda: lived_in(
        nn.Sequential(nn.Flatten(1, 2), nn.Linear(20, 60), nn.BatchNorm1d(60))
    ),
    "constant noise": lambda: Around(lambda self, x: self.norm(self.conv(x)) + torch.randn(1)),
    "tiny noise": lambda: Around(lambda self, x: self.norm(self.conv(x)) + 1e-20 * torch.randn_like(x).sum()),
    "random path": lambda: Around(
        lambda self, x: self.norm(self.conv(x)) if torch.rand(()) < 2 else self.conv(x)
    ),
    "other logits each time": lambda: Around(counting),
    "hidden norm": lambda: Around(hidden_norm),
    "statistics read": lambda: Around(
        lambda self, x: self.norm(self.conv(x)) + float(self.norm.running_mean.sum())
    ),
    "not a number": lambda: Around(lambda self, x: self.norm(self.conv(x)) / 0 * 0),
    "no tensor": lambda: Around(lambda self, x: [self.norm(self.conv(x))]),
    "other images": lambda: lived_in(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_model_that_cannot_be_fused_safely_is_left_as_it_was(case: str) -> None:
    model = REFUSALS[case]().double().eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generator = torch.get_rng_state()
    assert fuse_batch_norm(model, images()) is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)


def test_double_precision_must_be_kept() -> None:
    single = Around(lambda self, x: self.norm(self.conv(x.float())).double()).float().eval()
    assert fuse_batch_norm(single, images()) is None


def test_low_precision_is_left_alone() -> None:
    assert fuse_batch_norm(pair().to(torch.bfloat16), images(torch.bfloat16)) is None


def test_an_empty_sample_proves_nothing() -> None:
    assert fuse_batch_norm(pair(), images()[:0]) is None
