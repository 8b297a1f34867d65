"""Small networks around one layer each, of everything that people build image classifiers of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

CHANNELS, SIDE = 4, 6


class Do(nn.Module):
    """A function in place of a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Swish(torch.autograd.Function):
    """As in the networks of RobustBench: with a backward pass, and no forward derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        result: Tensor = gradient * (s * (1 + x * (1 - s)))
        return result


class Swish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return _Swish.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        result: Tensor = 2 * gradient * ctx.saved_tensors[0]
        return result


class Once(nn.Module):
    """A square that says of itself that it can be differentiated only once."""

    def forward(self, x: Tensor) -> Tensor:
        return _Once.apply(x)  # type: ignore[no-any-return, no-untyped-call]


class Attention(nn.Module):
    """Attention between pixels or between channels, written with softmax as in timm."""

    def __init__(self, *, window: int = SIDE, over_channels: bool = False) -> None:
        super().__init__()
        self.window, self.over_channels = window, over_channels
        self.qkv, self.out = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.norm = nn.LayerNorm(CHANNELS)
        # A temperature, or a bias for each pair of positions.
        self.scores = nn.Parameter(torch.ones(1) if over_channels else torch.eye(window**2))

    def forward(self, x: Tensor) -> Tensor:
        w, n = self.window, SIDE // self.window
        if n > 1:
            x = torch.roll(x, (1, 1), (2, 3))
        windows = (
            x.reshape(len(x), CHANNELS, n, w, n, w).permute(0, 2, 4, 3, 5, 1).reshape(-1, w * w, CHANNELS)
        )
        q, k, v = self.qkv(self.norm(windows)).chunk(3, dim=-1)
        if self.over_channels:
            q, k = F.normalize(q, dim=1), F.normalize(k, dim=1)
            mixed = v @ (q.transpose(1, 2) @ k * self.scores).softmax(dim=-1).transpose(1, 2)
        else:
            mixed = (q @ k.transpose(1, 2) * CHANNELS**-0.5 + self.scores).softmax(dim=-1) @ v
        found = (windows + self.out(mixed)).reshape(len(x), n, n, w, w, CHANNELS)
        result: Tensor = found.permute(0, 5, 1, 3, 2, 4).reshape(x.shape)
        return result


class Tokens(nn.Module):
    """A layer for sequences."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        is_attention = isinstance(self.layer, nn.MultiheadAttention)
        found = self.layer(tokens, tokens, tokens) if is_attention else self.layer(tokens)
        result: Tensor = found[0] if isinstance(found, tuple) else found
        return result


class MobileNetV3(nn.Module):
    """Inverted residual with squeeze-and-excitation, hardswish and hardsigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Sequential(
            nn.Conv2d(CHANNELS, 6, 1), nn.BatchNorm2d(6, momentum=0.0), nn.Hardswish(True)
        )
        self.deep = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Hardswish())
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 2, 1), nn.ReLU(True), nn.Conv2d(2, 6, 1)
        )
        self.excite, self.back = nn.Hardsigmoid(inplace=True), nn.Conv2d(6, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = self.deep(self.wide(x))
        result: Tensor = x + self.back(found * self.excite(self.squeeze(found)))
        return result


class ConvNeXt(nn.Module):
    """Depthwise convolution, LayerNorm over channels, GELU and LayerScale."""

    def __init__(self) -> None:
        super().__init__()
        self.deep, self.norm = (
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS),
            nn.LayerNorm(CHANNELS),
        )
        self.mix = nn.Sequential(nn.Linear(CHANNELS, 8), nn.GELU(), nn.Linear(8, CHANNELS))
        self.scale = nn.Parameter(torch.full((CHANNELS,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        found = self.scale * self.mix(self.norm(self.deep(x).permute(0, 2, 3, 1)))
        result: Tensor = x + found.permute(0, 3, 1, 2)
        return result


def _grid_sample(x: Tensor) -> Tensor:
    turned = torch.tensor([[0.9, 0.2, 0.1], [-0.2, 0.8, 0.0]], dtype=x.dtype).expand(len(x), 2, 3)
    return F.grid_sample(x, F.affine_grid(turned, list(x.shape), align_corners=False), align_corners=False)


def _standardized(layer: nn.Module) -> nn.Module:
    """A convolution whose weights are turned into others."""
    return nn.Sequential(layer, nn.SiLU())


def _conv() -> nn.Module:
    return nn.Conv2d(CHANNELS, CHANNELS, 3)


MODULES: list[Callable[[], nn.Module]] = [
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign),
    *(nn.Softshrink, nn.Hardshrink, nn.Tanhshrink, nn.LogSigmoid, nn.Softmax2d),
    *(Swish, MobileNetV3, ConvNeXt, Attention),
]
LAYERS: dict[str, Callable[[], nn.Module]] = {kind.__name__: kind for kind in MODULES} | {
    "ReLU in place": lambda: nn.ReLU(inplace=True),
    "Hardsigmoid in place": lambda: nn.Hardsigmoid(inplace=True),
    "GELU by tanh": lambda: nn.GELU("tanh"),
    "Threshold": lambda: nn.Threshold(0.1, 0.2),
    "GLU": lambda: nn.GLU(1),
    "Softmax": lambda: nn.Softmax(1),
    "Softmin": lambda: nn.Softmin(-1),
    "LogSoftmax": lambda: nn.LogSoftmax(1),
    "F.softmax": lambda: Do(lambda x: F.softmax(x, dim=-1)),
    "torch.softmax": lambda: Do(lambda x: torch.softmax(x, 2)),
    "Tensor.softmax": lambda: Do(lambda x: x.softmax(2)),
    "Tensor.log_softmax": lambda: Do(lambda x: x.log_softmax(dim=1)),
    "logsumexp": lambda: Do(lambda x: torch.logsumexp(x, (2, 3))),
    "BatchNorm2d": lambda: nn.BatchNorm2d(CHANNELS, momentum=0.0),
    "BatchNorm2d, no weights": lambda: nn.BatchNorm2d(CHANNELS, momentum=0.0, affine=False),
    "BatchNorm1d": lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(CHANNELS * SIDE**2, momentum=0.0)),
    "GroupNorm": lambda: nn.GroupNorm(2, CHANNELS),
    "LayerNorm": lambda: nn.LayerNorm([CHANNELS, SIDE, SIDE]),
    "LayerNorm, no weights": lambda: nn.LayerNorm(SIDE, elementwise_affine=False),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(CHANNELS, affine=True),
    "InstanceNorm2d, running": lambda: nn.InstanceNorm2d(CHANNELS, track_running_stats=True, momentum=0.0),
    "RMSNorm": lambda: nn.RMSNorm(SIDE),
    "LocalResponseNorm": lambda: nn.LocalResponseNorm(2),
    "MaxPool2d": lambda: nn.MaxPool2d(2),
    "AvgPool2d": lambda: nn.AvgPool2d(2),
    "LPPool2d": lambda: nn.Sequential(nn.Softplus(), nn.LPPool2d(2, 2)),
    "AdaptiveAvgPool2d": lambda: nn.AdaptiveAvgPool2d(4),
    "AdaptiveMaxPool2d": lambda: nn.AdaptiveMaxPool2d(2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(CHANNELS, 2, 2, stride=2),
    "Conv1d": lambda: Do(nn.Sequential(nn.Flatten(2), nn.Conv1d(CHANNELS, 2, 3, stride=2))),
    "Conv3d": lambda: nn.Sequential(nn.Unflatten(1, (1, CHANNELS)), nn.Conv3d(1, 2, 3)),
    "Upsample": lambda: nn.Upsample(scale_factor=2),
    "Upsample, bilinear": lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"),
    "Upsample, bicubic": lambda: nn.Upsample(size=4, mode="bicubic"),
    "PixelShuffle": lambda: nn.PixelShuffle(2),
    "ReflectionPad2d": lambda: nn.ReflectionPad2d(1),
    "ReplicationPad2d": lambda: nn.ReplicationPad2d(1),
    "Unfold": lambda: nn.Unfold(3),
    "normalize": lambda: Do(lambda x: F.normalize(x, dim=1)),
    "normalize by the 1-norm": lambda: Do(lambda x: F.normalize(x, p=1.0, dim=1)),
    "1-norm": lambda: Do(lambda x: torch.linalg.vector_norm(x, 1, dim=1)),
    "Tensor.norm": lambda: Do(lambda x: x.norm(dim=1)),
    "cosine_similarity": lambda: Do(lambda x: F.cosine_similarity(x, x.roll(1, 2), dim=1)),
    "cdist": lambda: Do(lambda x: torch.cdist(x.flatten(2), torch.linspace(0, 1, 108).view(3, 36).to(x))),
    "grid_sample": lambda: Do(_grid_sample),
    "fft": lambda: Do(lambda x: torch.fft.rfft2(x).abs()),
    "max and sort": lambda: Do(lambda x: x.sort(dim=-1).values + x.amax(dim=1, keepdim=True)),
    "std": lambda: Do(lambda x: x / x.std(dim=(2, 3), keepdim=True)),
    "einsum": lambda: Do(lambda x: torch.einsum("bchw,bdhw->bcd", x, x)),
    "slogdet": lambda: Do(lambda x: torch.linalg.slogdet(x + 3 * torch.eye(SIDE).to(x)).logabsdet),
    "windows of attention": lambda: Attention(window=3),
    "attention over channels": lambda: Attention(over_channels=True),
    "scaled_dot_product_attention": lambda: Do(lambda x: F.scaled_dot_product_attention(x, x.sin(), x)),
    "MultiheadAttention": lambda: Tokens(nn.MultiheadAttention(CHANNELS, 2, batch_first=True)),
    "TransformerEncoderLayer": lambda: Tokens(
        nn.TransformerEncoderLayer(CHANNELS, 2, 8, dropout=0.0, batch_first=True, norm_first=True)
    ),
    "GRU": lambda: Tokens(nn.GRU(CHANNELS, 3, batch_first=True)),
    "LSTM": lambda: Tokens(nn.LSTM(CHANNELS, 3, batch_first=True)),
    "spectral_norm": lambda: _standardized(parametrizations.spectral_norm(_conv(), n_power_iterations=60)),
    "weight_norm": lambda: _standardized(parametrizations.weight_norm(_conv())),
    "orthogonal": lambda: Tokens(parametrizations.orthogonal(nn.Linear(CHANNELS, CHANNELS))),
}
"""by name, a layer for images of 4 channels and 6 x 6 pixels"""


def network(name: str) -> nn.Module:
    """Return a network of three classes around a layer, for images of 1 x 6 x 6 pixels, in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        body = nn.Sequential(nn.Conv2d(1, CHANNELS, 3, padding=1), LAYERS[name](), nn.Flatten()).double()
        width = body(images()).shape[1]
        last = nn.Linear(width, 3, dtype=torch.float64)
        model = nn.Sequential(body, last)
    with torch.no_grad():
        # Logits of the size of trained ones: the softmax of the loss is curved.
        last.weight.mul_(2 / model(images()).std())
    return model


def images(count: int = 3) -> Tensor:
    """Return some images whose pixels are not at the ends of their range."""
    return (
        torch.rand(count, 1, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
        .mul(0.8)
        .add(0.1)
    )
