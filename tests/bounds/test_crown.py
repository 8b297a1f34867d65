"""CROWN: exact where it must be, never beyond the exact minimum, better with more work."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor, nn

from soar.bounds import crown_margins, propagate
from soar.threat import L2, Linf, Threat
from tests.bounds.searching import SLACK, check_bounds, images, labels, least_margins, network


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.1")], ids=str)
def test_linear_models_are_exact_through_every_linear_layer(threat: Threat) -> None:
    model = network(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.AvgPool2d(2), nn.Identity())
    x = 0.3 + 0.4 * images()
    y = labels(model, x)
    jacobian = torch.autograd.functional.jacobian(lambda one: model(one[None])[0], x[0])
    logits, rows = model(x), torch.arange(len(x))
    difference = jacobian[y][:, None] - jacobian
    reach = threat.radius * threat.dual_norm(difference.flatten(0, 1)).reshape(len(x), -1)
    exact = logits[rows, y][:, None] - logits - reach
    exact = exact.scatter(1, y[:, None], torch.inf)
    torch.testing.assert_close(crown_margins(model, x, y, threat), exact, rtol=0, atol=1e-10)


def exact_minimum(model: nn.Sequential, low: Tensor, high: Tensor, goal: Tensor) -> float:
    """Return the minimum of goal . f over a box: a linear program for each pattern of a layer of ReLUs."""
    w, b, v, c = (parameter.numpy() for parameter in model.parameters())
    least = float("inf")
    for pattern in itertools.product((0.0, 1.0), repeat=len(b)):
        on = torch.tensor(pattern).double().numpy()
        row = goal.numpy() @ (v * on)
        # Inside the region a neuron is on or off: -(w x + b) <= 0, or w x + b <= 0.
        sign = 1 - 2 * on
        found = linprog(
            row @ w,
            A_ub=sign[:, None] * w,
            b_ub=-sign * b,
            bounds=list(zip(low.tolist(), high.tolist(), strict=True)),
        )
        if found.status == 0:
            least = min(least, float(found.fun + row @ b + goal.numpy() @ c))
    return least


@pytest.mark.parametrize("seed", range(4))
def test_no_bound_exceeds_the_exact_minimum_of_a_small_network(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    model.requires_grad_(False)
    x, threat = torch.rand(1, 3, generator=generator, dtype=torch.float64), Linf("0.2")
    y = labels(model, x)
    low, high = (x - 0.2).clamp(min=0)[0], (x + 0.2).clamp(max=1)[0]
    bounds = [
        propagate(model, x, threat).margins(y),
        crown_margins(model, x, y, threat),
        crown_margins(model, x, y, threat, steps=20),
    ]
    for other in range(3):
        if other != int(y):
            goal = torch.zeros(3, dtype=torch.float64)
            goal[int(y)], goal[other] = 1, -1
            exact = exact_minimum(model, low, high, goal)
            found = [float(one[0, other]) for one in bounds]
            assert found == sorted(found), "intervals, CROWN, optimized slopes: never looser"
            assert found[-1] <= exact + 1e-9
            assert found[-1] >= exact - 0.75 * (exact - found[0]) - 1e-9, (
                "a quarter of the way from intervals"
            )


@pytest.mark.parametrize("steps", [0, 3])
def test_refinement_is_never_looser_and_somewhere_better(steps: int) -> None:
    model = network(nn.Conv2d(2, 2, 3, stride=2), nn.ReLU(), nn.Conv2d(2, 2, 2), nn.ReLU(), nn.Tanh())
    x, threat = images(), Linf("0.1")
    y = labels(model, x)
    plain = crown_margins(model, x, y, threat, steps=steps)
    refined = crown_margins(model, x, y, threat, steps=steps, refine=True)
    assert (refined >= crown_margins(model, x, y, threat)).all()
    assert (refined > plain)[plain.isfinite()].any()
    assert (least_margins(model, x, y, threat) >= refined - SLACK).all()


def test_a_batch_is_bounded_as_its_images_alone_and_other_labels_as_well() -> None:
    model, x, threat = network(nn.Conv2d(2, 3, 3), nn.ReLU()), images(4), L2("0.2")
    y = torch.tensor([0, 1, 2, 0])
    whole = crown_margins(model, x, y, threat)
    alone = torch.cat([crown_margins(model, x[i : i + 1], y[i : i + 1], threat) for i in range(4)])
    torch.testing.assert_close(whole, alone)
    assert torch.equal(whole.isinf(), torch.nn.functional.one_hot(y, 3).bool())


def test_nothing_is_certified_where_numbers_overflow() -> None:
    model = network(nn.Conv2d(2, 3, 3), nn.ReLU())
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            parameter.mul_(1e300)
    x = images()
    assert not (crown_margins(model, x, labels(model, x), Linf("0.1")) > 0).all(dim=1).any()


def canceling(kind: type[nn.Module], seed: int) -> nn.Sequential:
    """Return a network whose large activations cancel in its logits."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 64), kind(), nn.Linear(64, 64), kind(), nn.Linear(64, 2))
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    model.requires_grad_(False)
    model.get_parameter("0.weight").mul_(1e-4)  # the image hardly matters, rounding does
    model.get_parameter("0.bias").add_(100.0)
    model.get_parameter("2.bias").add_(10_000.0)
    model.double()
    x = torch.full((1, 8), 0.5, dtype=torch.float64)
    model.get_parameter("4.bias").sub_(model(x)[0] - torch.tensor([0.01, 0.0]))
    return model.float()


@pytest.mark.parametrize("kind", [nn.Identity, nn.ReLU])
def test_float32_claims_nothing_where_large_activations_cancel(kind: type[nn.Module]) -> None:
    x, y, threat = torch.full((1, 8), 0.5), torch.tensor([0]), Linf("1/1000000000")
    beyond = 0
    for seed in range(10):
        model = canceling(kind, seed)
        found = float(crown_margins(model, x, y, threat)[0, 1])
        computed = model(x)[0]
        model.double()
        exact = model(x.double())[0]
        assert found <= float(exact[0] - exact[1])
        beyond += float(computed[0] - computed[1]) > float(exact[0] - exact[1])
    assert beyond, "the plain difference of logits in float32 does claim too much"


Block = Callable[[int], nn.Module]
BLOCKS = st.lists(
    st.sampled_from(
        [
            lambda c: nn.Conv2d(c, c, 3, padding=1),
            lambda c: nn.Conv2d(c, c, 1, groups=c),
            nn.BatchNorm2d,
            lambda c: nn.GroupNorm(1, c),
            lambda _: nn.ReLU(),
            lambda _: nn.LeakyReLU(0.3),
            lambda _: nn.SiLU(),
            lambda _: nn.GELU(),
            lambda _: nn.Tanh(),
            lambda _: nn.MaxPool2d(3, stride=1, padding=1),
            lambda _: nn.AvgPool2d(3, stride=1, padding=1),
        ]
    ),
    min_size=1,
    max_size=4,
)


class Branches(nn.Module):
    """The sum or the concatenation of two paths."""

    def __init__(self, first: nn.Module, second: nn.Module, *, joined: bool) -> None:
        super().__init__()
        self.first, self.second, self.joined = first, second, joined

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.first(x), self.second(x)
        return torch.cat([a, b], dim=1) if self.joined else a + b


@given(
    first=BLOCKS, second=BLOCKS, joined=st.booleans(), eps=st.sampled_from(["1/255", "0.1"]), data=st.data()
)
@settings(max_examples=12, deadline=None)
def test_no_search_beats_the_bounds_of_random_graphs(
    first: list[Block], second: list[Block], joined: bool, eps: str, data: st.DataObject
) -> None:
    paths = [nn.Sequential(*(block(2) for block in blocks)) for blocks in (first, second)]
    model = network(Branches(*paths, joined=joined), seed=data.draw(st.integers(0, 100)))
    check_bounds(model, images(2), data.draw(st.sampled_from([Linf(eps), L2(eps)])))
