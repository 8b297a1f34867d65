"""Every kind of layer: no search beats a bound, in whichever way the layer is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from soar.bounds import crown_margins, propagate
from soar.models.layers import PerImageStandardization, Statistics, normalization_layer
from soar.threat import L2, Linf, Threat
from tests.bounds.searching import check_bounds, images, labels, network


class Calls(nn.Module):
    """A convolution, and then what a function does with it."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.function = nn.Conv2d(2, 4, 3, padding=1), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.conv(x))


def conv(outputs: int = 4, **options: object) -> nn.Conv2d:
    return nn.Conv2d(2, outputs, 3, **options)  # type: ignore[arg-type]


def accumulated(z: Tensor) -> Tensor:
    """Change tensors in place, as residual networks do."""
    out = z / 2
    out += F.relu(z - 0.1, inplace=True)
    out -= 0.3
    return out.relu_()


LAYERS: dict[str, Callable[[], list[nn.Module]]] = {
    "conv": lambda: [conv(), nn.ReLU()],
    "strided conv": lambda: [conv(stride=2, padding=1), nn.ReLU(inplace=True)],
    "grouped conv": lambda: [conv(groups=2), nn.ReLU()],
    "dilated conv, no bias": lambda: [conv(dilation=2, bias=False), nn.ReLU()],
    "reflecting conv": lambda: [conv(padding=1, padding_mode="reflect"), nn.ReLU()],
    "transposed conv": lambda: [nn.ConvTranspose2d(2, 4, 3, stride=2, groups=2), nn.ReLU()],
    "linear": lambda: [nn.Flatten(), nn.Linear(72, 10), nn.ReLU(), nn.Linear(10, 8), nn.ReLU()],
    "batch norm": lambda: [conv(), nn.BatchNorm2d(4), nn.ReLU(), nn.BatchNorm2d(4, affine=False)],
    "group norm": lambda: [conv(), nn.GroupNorm(2, 4), nn.ReLU()],
    "layer norm": lambda: [conv(), nn.LayerNorm([4, 4, 4]), nn.ReLU()],
    "layer norm of features": lambda: [nn.Flatten(), nn.Linear(72, 9), nn.LayerNorm(9), nn.ReLU()],
    "leaky relu": lambda: [conv(), nn.LeakyReLU(0.2)],
    "falling leaky relu": lambda: [conv(), nn.LeakyReLU(-0.5)],
    "silu": lambda: [conv(), nn.SiLU()],
    "gelu": lambda: [conv(), nn.GELU()],
    "gelu by tanh": lambda: [conv(), nn.GELU(approximate="tanh")],
    "softplus": lambda: [conv(), nn.Softplus(2.0), nn.Softplus(1.0, threshold=1.0)],
    "tanh": lambda: [conv(), nn.Tanh()],
    "sigmoid": lambda: [conv(), nn.Sigmoid()],
    "hardtanh": lambda: [conv(), nn.Hardtanh(-0.3, 0.4)],
    "relu6": lambda: [conv(), nn.ReLU6()],
    "average pool": lambda: [conv(), nn.ReLU(), nn.AvgPool2d(2, stride=1, padding=1)],
    "adaptive average pool": lambda: [conv(), nn.ReLU(), nn.AdaptiveAvgPool2d(3)],
    "max pool": lambda: [conv(), nn.MaxPool2d(2)],
    "overlapping max pool": lambda: [conv(), nn.ReLU(), nn.MaxPool2d(3, stride=1, padding=1)],
    "dilated max pool": lambda: [conv(), nn.MaxPool2d((2, 1), dilation=2)],
    "adaptive max pool": lambda: [conv(), nn.AdaptiveMaxPool2d(2)],
    "dropout": lambda: [conv(), nn.Dropout(), nn.ReLU()],
    "identity": lambda: [nn.Identity(), nn.Unflatten(1, (2, 1)), nn.Flatten(1, 2), conv(), nn.ReLU()],
    "residual": lambda: [Calls(lambda z: F.relu(z) + z)],
    "broadcast sum": lambda: [Calls(lambda z: F.relu(z + F.relu(z).mean(dim=(2, 3), keepdim=True)))],
    "in place": lambda: [Calls(accumulated)],
    "concat": lambda: [Calls(lambda z: torch.cat([F.relu(z), 1 - z, torch.zeros_like(z)], dim=1))],
    "stack": lambda: [Calls(lambda z: torch.stack([z, F.relu(z)], dim=1).sum(dim=1))],
    "chunks": lambda: [Calls(lambda z: F.relu(z.chunk(2, dim=1)[0]) - 2 * z[:, 2:])],
    "repeats": lambda: [Calls(lambda z: F.relu(z[:, [0, 0, 1]].repeat(1, 2, 1, 1)))],
    "product": lambda: [Calls(lambda z: torch.sigmoid(z) * F.relu(z))],
    "square": lambda: [Calls(lambda z: z * z + (z / 2) ** 2)],
    "quotient": lambda: [Calls(lambda z: z / (1 + z.square().mean(dim=1, keepdim=True)).sqrt())],
    "reciprocal": lambda: [Calls(lambda z: 1 / (1 + F.relu(z)))],
    "clamp": lambda: [Calls(lambda z: z.clamp(-0.2, 0.3) + z.clamp(min=0.1) - z.clamp(max=0.0).abs())],
    "matmul": lambda: [Calls(lambda z: F.relu(z @ torch.linspace(-1, 1, 18, dtype=z.dtype).reshape(6, 3)))],
    "padded": lambda: [Calls(lambda z: F.relu(F.pad(z, (1, 0, 2, 1), value=-0.3)))],
    "per-image standardization": lambda: [PerImageStandardization(), conv(), nn.ReLU()],
    "input normalization": lambda: [
        normalization_layer(Statistics((0.2, 0.4), (0.3, 0.5)), 2),
        conv(),
        nn.ReLU(),
    ],
}
THREATS = [Linf(0.05), L2(0.5)]


@pytest.mark.parametrize("threat", THREATS, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_no_search_beats_a_bound(name: str, threat: Threat) -> None:
    torch.manual_seed(0)
    check_bounds(network(*LAYERS[name]()), images(), threat)


@pytest.mark.parametrize("name", LAYERS)
def test_float32_never_says_more_than_float64(name: str) -> None:
    torch.manual_seed(0)
    model, x = network(*LAYERS[name]()).float(), images().float()
    y, threat = labels(model, x), Linf("1/255")
    found = []
    for dtype in (torch.float32, torch.float64):
        model, x = model.to(dtype), x.to(dtype)
        bounds = propagate(model, x, threat)
        found.append((bounds.margins(y), crown_margins(model, x, y, threat), -bounds.interval.upper))
    for narrow, wide in zip(*found, strict=True):
        assert (narrow <= wide).all()
    unlabeled = found[0][0].isfinite()
    assert (found[0][1] - found[1][1])[unlabeled].abs().max() < 1e-2, "and little less"
