"""Every registered network can be bounded, whatever its options."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from soar import models
from soar.bounds import crown_margins, propagate
from soar.models.layers import Activation, Norm
from soar.threat import Linf, Threat

SMALL: dict[str, dict[str, Any]] = {
    "cnn6": {"width": 2, "hidden": 8},
    "cnn8": {"width": 2, "hidden": 8},
    "resnet10": {"width": 8},
    "resnet18": {"width": 8},
    "wide_resnet": {"depth": 10, "widen_factor": 1},
}
CHOICES = [(norm, "relu") for norm in get_args(Norm)] + [
    ("batch", activation) for activation in get_args(Activation) if activation != "relu"
]


@pytest.mark.parametrize("threat", [Linf("1/1000")], ids=str)
@pytest.mark.parametrize(("norm", "activation"), CHOICES)
@pytest.mark.parametrize("name", [entry.name for entry in models.MODELS])
def test_no_attack_step_beats_the_bounds(name: str, norm: str, activation: str, threat: Threat) -> None:
    options = {"groups": 2, "norm": norm, "activation": activation, **SMALL[name]}
    shape = (1, 16, 16)
    network = models.build(name, seed=0, num_classes=3, image_shape=shape, options=options)
    model = network.double().eval().requires_grad_(False)
    x = torch.rand(
        2, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    ).requires_grad_()
    logits = model(x)
    y = logits.argmax(dim=1)
    (gradient,) = torch.autograd.grad(logits.gather(1, y[:, None]).sum(), x)
    x = x.detach()
    worse = model(threat.project(x - threat.radius * threat.ascent(gradient), x))
    ibp, crown = propagate(model, x, threat).margins(y), crown_margins(model, x, y, threat)
    for margins in (worse.gather(1, y[:, None]) - worse, logits.detach().gather(1, y[:, None]) - logits):
        assert (margins.scatter(1, y[:, None], torch.inf) >= crown).all()
    assert (crown >= ibp).all()
    assert not crown.isnan().any()


@pytest.mark.parametrize("normalization", ["none", "per-image", "svhn"])
def test_input_normalization_is_bounded_with_the_model(normalization: str) -> None:
    options = {**SMALL["cnn6"], "input_normalization": normalization}
    model = models.build("cnn6", seed=0, num_classes=3, image_shape=(3, 16, 16), options=options).eval()
    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    y = model(x).argmax(dim=1)
    assert crown_margins(model, x, y, Linf("1/10000")).isfinite().sum() == 4
