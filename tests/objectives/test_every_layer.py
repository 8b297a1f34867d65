"""Every differentiable network trains with every objective, by the right gradient."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import curvature, randomness
from soar.attacks.recall import Recall
from soar.errors import UserError
from soar.objectives import OBJECTIVES, SOAR, Objective
from soar.threat import Linf
from tests.objectives import layers
from tests.objectives.layers import LAYERS, Once, network

X, Y, INDEX, STEP = layers.images(), torch.tensor([0, 1, 2]), torch.arange(3), 3
THREAT = Linf("0.05")
TWICE = ["soar", "soar-paper", "foar", "cure", "llr", "grad-align"]

for_layers = pytest.mark.parametrize("name", LAYERS)
FALLS_BACK = ("Swish", "GLU", "normalize by the 1-norm", "1-norm", "grid_sample", "slogdet")
told = pytest.mark.filterwarnings("ignore:model. has no forward derivatives that SOAR can train")


def directional_derivatives(objective: Objective) -> tuple[float, float]:
    """The derivative of a loss along a random change of the weights, and the same by a difference."""
    model, recall = objective.model, Recall()
    parameters = [one for one in model.parameters() if one.requires_grad]
    with recall.recording():
        objective(X, Y, INDEX, STEP)
    found = list(recall._found)

    def loss() -> Tensor:
        again = Recall()
        again._found.extend(found)
        with again.replaying():
            result: Tensor = objective(X, Y, INDEX, STEP).loss
        return result

    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True, materialize_grads=True)
    nudges = [
        randomness.normal(randomness.key(i, 0, "nudge"), tuple(one.shape), torch.float64)[0]
        for i, one in enumerate(parameters)
    ]
    h, values = 1e-6, []
    for sign in (1, -1):
        for one, nudge in zip(parameters, nudges, strict=True):
            one.data.add_(sign * h * nudge)
        values.append(loss().item())
        for one, nudge in zip(parameters, nudges, strict=True):
            one.data.sub_(sign * h * nudge)
    along = sum(float((g * n).sum()) for g, n in zip(gradients, nudges, strict=True))
    return along, (values[0] - values[1]) / (2 * h)


def build(name: str, model: nn.Module, **options: Any) -> Objective:
    return OBJECTIVES.build(name, options, model, THREAT, seed=0)


@told
@for_layers
def test_soars_product_is_that_of_the_dense_jacobian(name: str) -> None:
    model = network(name)
    found = SOAR(model, THREAT, init="zero", loss_scale=1.0)(X, Y, INDEX, STEP)
    z = curvature.draw_direction(randomness.key(0, INDEX, "soar direction 0", STEP), X.shape[1:], X.dtype)
    if any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in model.modules()):
        model.eval()
    jacobian = torch.autograd.functional.jacobian(model, X)
    assert isinstance(jacobian, Tensor)
    norms = []
    for i, (label, first, last) in enumerate(zip(Y, z.pixels.flatten(1), z.last, strict=True)):
        own, p = jacobian[i, :, i].flatten(1), model(X)[i].softmax(dim=0).detach()
        residual = p - torch.nn.functional.one_hot(label, 3)
        top = own.T @ ((torch.diag(p) - p[:, None] * p) @ (own @ first) + last * residual)
        norms.append(torch.cat([top, (residual @ own @ first + last)[None]]).norm())
    torch.testing.assert_close(found.metrics["curvature"], torch.stack(norms).mean(), rtol=1e-7, atol=1e-9)


@told
@pytest.mark.parametrize(
    "objective", [pytest.param(one, marks=[] if one == "soar" else pytest.mark.slow) for one in TWICE]
)
@for_layers
def test_second_order_objectives_have_the_gradient_of_their_loss(name: str, objective: str) -> None:
    # At its default scale the penalty is a small part of the loss.
    options = {"loss_scale": 1.0} if objective == "soar" else {}
    ours, expected = directional_derivatives(build(objective, network(name), **options))
    assert ours == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("product", ["exact", "finite-difference"])
@pytest.mark.parametrize("name", ["Attention", "MobileNetV3", "ConvNeXt", "Swish"])
def test_the_other_products_have_the_gradient_of_their_loss(name: str, product: str) -> None:
    ours, expected = directional_derivatives(build("soar", network(name), hvp=product, loss_scale=1.0))
    assert ours == pytest.approx(expected, rel=1e-4, abs=1e-6)


@told
@pytest.mark.parametrize("objective", [one.name for one in OBJECTIVES])
@pytest.mark.parametrize(
    "name",
    [
        *("windows of attention", "attention over channels", "MobileNetV3", "ConvNeXt", "Swish"),
        *("MultiheadAttention", "spectral_norm", "weight_norm"),
    ],
)
def test_every_objective_trains_it(name: str, objective: str) -> None:
    model = network(name).float()
    made = build(objective, model)
    if objective == "ibp" and name not in ("ConvNeXt", "spectral_norm", "weight_norm"):
        with pytest.raises(
            UserError, match=r"^model: got .*; `soar certify --method smoothing` takes any model"
        ):
            made(X.float(), Y, INDEX)
        return
    for step in range(2):
        made(X.float(), Y, INDEX, step).loss.backward()
    # Attention does not depend on a shift of all keys, nor a normalized sum on its length.
    gradients = [one.grad for one in model.parameters()]
    assert all(one is not None and bool(one.isfinite().all()) for one in gradients)
    assert all(bool(model.get_parameter(f"{part}.weight").grad.any()) for part in ("0.0", "1"))  # type: ignore[union-attr]


@for_layers
def test_what_falls_back_says_so_once_and_nothing_else_does(name: str) -> None:
    objective = SOAR(network(name), THREAT, init="zero")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2):
            objective(X, Y, INDEX, step)
    messages = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    assert len(messages) == (name in FALLS_BACK)
    if name in ("Swish", "grid_sample"):
        assert f", in 0.1 ({'Swish' if name == 'Swish' else 'Do'}))" in messages[0]


@pytest.mark.parametrize("objective", [one.name for one in OBJECTIVES if one.name != "ibp"])
def test_what_has_one_derivative_is_trained_by_those_that_need_one(objective: str) -> None:
    model = network("ReLU")
    model[0][1] = Once()  # type: ignore[index]
    made = build(objective, model)
    if objective not in TWICE:
        made(X, Y, INDEX).loss.backward()
        return
    refusal = (
        r"^model: cannot be differentiated twice \(RuntimeError: trying to differentiate twice .*; it calls"
        r" _Once\);"
        " expected layers that can, or an objective that differentiates once, such as nfgsm, adversarial,"
        " trades or qub$"
    )
    for _ in range(2):
        with pytest.raises(UserError, match=refusal):
            made(X, Y, INDEX)


@pytest.mark.parametrize("product", ["exact", "finite-difference"])
def test_every_product_of_soar_refuses_what_has_one_derivative(product: str) -> None:
    model = network("ReLU")
    model[0][1] = Once()  # type: ignore[index]
    with pytest.raises(UserError, match=r"^model: cannot be differentiated twice \(RuntimeError: .*twice"):
        build("soar", model, hvp=product)(X, Y, INDEX)
