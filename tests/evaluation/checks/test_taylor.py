from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from soar.evaluation.checks import taylor
from soar.evaluation.checks.taylor import StepNumbers, TaylorNumbers, step_numbers, taylor_numbers
from soar.evaluation.target import Target
from soar.threat import L2, Linf, Threat
from tests.evaluation.checks.made import SHAPE, Behind, Linear, images, rounded, shared

PIXELS = math.prod(SHAPE)


class Bowl(nn.Module):
    """Two classes whose cross-entropy for class 0 is a + c/2 |x - 0.1|^2: logits (0, log(e^q - 1))."""

    def __init__(self, curvature: float) -> None:
        super().__init__()
        self.curvature = nn.Parameter(torch.tensor(curvature, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        q = 0.1 + self.curvature / 2 * (x - 0.1).flatten(1).square().sum(dim=1)
        return torch.stack([torch.zeros_like(q), q.expm1().log()], dim=1)


@pytest.mark.parametrize("threat", [Linf("0.02"), L2("0.1")])
def test_the_second_order_is_exact_for_a_quadratic_loss(threat: Threat) -> None:
    c = 0.05
    x, y = images(20).double(), torch.zeros(20, dtype=torch.int64)
    found = taylor_numbers(Target(model=Bowl(c), data=(x, y), threat=threat, batch_size=8))
    assert found.examples == 20 and found.broken == 0
    assert found.curvature == pytest.approx(c) and found.path_curvature == pytest.approx(c)
    assert found.second_order_error == pytest.approx(0, abs=1e-9)
    assert found.path_error == pytest.approx(0, abs=1e-9)
    # Every pixel lies above 0.1, so the attack ends eps away from the image, in each pixel or in all.
    length = threat.radius**2 * (PIXELS if isinstance(threat, Linf) else 1)
    assert found.nonlinearity == pytest.approx(c / 2 * length)
    if isinstance(threat, Linf):
        rises = c * threat.radius * (x - 0.1).flatten(1).sum(dim=1)
        errors = (c / 2 * length) / (rises + c / 2 * length)
        assert found.first_order_error == pytest.approx(float(errors.median()))


def test_two_linear_classes_have_one_direction() -> None:
    found = taylor.examine(shared(Linear(classes=2)))
    assert found.finding == "sound" and found.excess == 0
    assert found.numbers["cosine"] == pytest.approx(1)
    assert found.numbers["broken"] == 0


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_linear_models_are_sound(norm: str) -> None:
    found = taylor.examine(shared(Linear(), norm=norm))
    assert found.finding == "sound" and "100.0%" in found.sentence
    first, second = found.numbers["first_order_error"], found.numbers["second_order_error"]
    assert isinstance(first, float) and isinstance(second, float) and second < first


def test_the_hessian_of_a_linear_model_is_that_of_the_softmax() -> None:
    """For two classes with margin m the loss is log(1 + e^-m), so d H d = p_0 p_1 (dm)^2."""
    model = Linear(classes=2).double()
    x = images(1).double()
    with torch.no_grad():
        z = model(x)
        y, p = z.argmax(dim=1), z.softmax(dim=1)
    w = model.weight.detach()
    direction = (w[1 - y] - w[y]).sign().double()
    along = float(((w[1 - y] - w[y]) * direction).sum())
    found = taylor_numbers(Target(model=model, data=(x, y), threat=Linf("0.001")))
    assert found.curvature == pytest.approx(float(p[0, 0] * p[0, 1]) * along**2 / PIXELS, rel=1e-6)


def backwards(x: Tensor) -> Tensor:
    """Change nothing, with a gradient that points the wrong way."""
    return 2 * x.detach() - x


def test_a_gradient_that_misleads_is_suspicious() -> None:
    found = taylor.examine(shared(Behind(backwards)))
    assert found.finding == "suspicious" and found.excess == pytest.approx(4, abs=0.2)
    assert found.numbers["broken"] == 1
    assert "does not raise the loss as predicted on 100.0%" in found.sentence
    assert found.numbers["kept"] < 0  # type: ignore[operator]
    assert found.advice[0] == "straight through"


def test_a_gradient_that_misleads_is_seen_behind_a_saturated_softmax() -> None:
    """The cross-entropy predicts nothing there, the margin does."""
    model = Behind(backwards)
    model.linear.factor = 1e4
    found = taylor.examine(shared(model))
    assert found.finding == "suspicious" and found.numbers["flat"] == 0


@pytest.mark.parametrize("factor", [50.0, 1e4])
def test_large_logits_alone_are_no_evidence(factor: float) -> None:
    """A step whose predicted rise is lost in rounding says nothing about the gradient."""
    found = taylor.examine(shared(Linear(factor)))
    assert found.finding == "sound" and found.numbers["broken"] == 0


def exaggerated(x: Tensor) -> Tensor:
    """Change nothing, with a gradient that is a hundred times too steep."""
    return x.detach() + 100 * (x - x.detach())


def test_a_gradient_that_promises_too_much_is_suspicious() -> None:
    found = taylor.examine(shared(Behind(exaggerated)))
    assert found.finding == "suspicious" and found.numbers["broken"] == 1
    assert found.numbers["kept"] == pytest.approx(0.01, rel=0.5)


def test_a_kink_right_at_the_image_is_suspicious() -> None:
    """Ripples make every gradient steep, and within a small step the loss falls back to where it was."""

    def ripples(x: Tensor) -> Tensor:
        return x + (x * 2000).sin() / 20

    model = Behind(ripples)
    assert taylor.examine(shared(model)).finding == "suspicious"


@pytest.mark.parametrize("change", [rounded, torch.Tensor.detach], ids=["rounded", "cut"])
def test_without_a_gradient_nothing_can_be_expanded(change: object) -> None:
    found = taylor.examine(shared(Behind(change)))  # type: ignore[arg-type]
    assert found.finding == "sound" and found.numbers["broken"] == 0 and found.numbers["flat"] == 1
    assert "cannot be judged" in found.sentence
    assert found.numbers["curvature"] is None and found.numbers["kept"] is None


class Last(torch.autograd.Function):
    """The identity, which cannot be differentiated."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        raise RuntimeError("no derivative")


class Once(torch.autograd.Function):
    """The identity, which can be differentiated once."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> Tensor:
        gradient: Tensor = Last.apply(gradients[0])  # type: ignore[no-untyped-call]
        return gradient


def test_a_model_that_cannot_be_differentiated_twice_still_has_the_curvature_on_the_way() -> None:
    found = taylor.examine(shared(Behind(Once.apply)))
    assert found.finding == "sound"
    assert found.numbers["curvature"] is None and found.numbers["second_order_error"] is None
    assert isinstance(found.numbers["path_curvature"], float)


@pytest.mark.parametrize(
    ("broken", "examples", "finding"),
    [
        (0.0, 256, "sound"),
        (0.2, 256, "sound"),
        (0.3, 256, "suspicious"),
        (1.0, 256, "suspicious"),
        (0.3, 7, "sound"),
    ],
)
def test_the_rule(broken: float, examples: int, finding: str) -> None:
    known = ("examples", "broken", "flat")
    rest = dict.fromkeys(name for name in TaylorNumbers.__annotations__ if name not in known)
    found = taylor.judge(TaylorNumbers(examples=examples, broken=broken, flat=0.0, **rest))
    step = StepNumbers(examples=examples, broken=broken, flat=0.0, kept=1.0)
    assert taylor.judge(step).finding == found.finding
    assert found.finding == finding and bool(found.advice) == (finding != "sound")


def test_the_first_step_alone_is_that_of_the_whole_check() -> None:
    for model in (Linear(), Linear(factor=50.0), Behind(backwards)):
        target = shared(model).target
        step, whole = vars(step_numbers(target)), vars(taylor_numbers(target))
        assert step == {name: whole[name] for name in step}


def test_no_more_than_so_many_images_are_taken() -> None:
    found = taylor.examine(shared(Linear(), count=300))
    assert found.numbers["examples"] == taylor.MOST_EXAMPLES == 256


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(PIXELS), nn.Dropout(), nn.Linear(PIXELS, 3))
    before = {name: one.clone() for name, one in model.state_dict().items()}
    x = images(10)
    with torch.no_grad():
        y = model.eval()(x).argmax(dim=1)
    taylor_numbers(Target(model=model.train(), data=(x, y), threat=Linf("0.1")))
    assert model.training and all(one.requires_grad and one.grad is None for one in model.parameters())
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
