from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import randomness
from soar.cost import Counter
from soar.objectives import MMA
from soar.objectives.mma import bisect
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said
from tests.objectives.mma_problems import all_right, network, search, some_of_each


class FromImage(L2):
    """Starts at the image, from where every step goes the same way on a linear model."""

    def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
        return x


@pytest.mark.parametrize(
    "threat, dual, stretch",
    # In l2 ten steps leave something of a random start's direction, so that the way is a little longer.
    [(Linf("0.03"), 1, 1.0), (FromImage("0.1"), 2, 1.0), (L2("0.1"), 2, 1.05)],
    ids=["linf", "l2 from the image", "l2"],
)
@pytest.mark.parametrize("bisections", [4, 10])
def test_margins_of_a_linear_model_are_its_distances(
    threat: Threat, dual: int, stretch: float, bisections: int
) -> None:
    # With two classes the soft margin is the margin itself.
    model, x = Linear(classes=2), images(40)
    y = said(model, x)
    distances = model.distances(x, y, dual)
    limit = 4 * threat.radius
    near = distances < limit
    assert 10 <= near.sum() <= 30
    objective = MMA(model, threat, bisection_steps=bisections)
    for step in range(2):
        found = search(objective, x, y, step=step)
        width = 1.05 * limit / 2 ** (bisections - 1)
        assert (found.margins >= distances - 1e-12)[near].all()
        assert (found.margins <= stretch * distances + width)[near].all()
        assert (found.margins[distances > 1.05 * limit] == 1.05 * limit).all()
        assert torch.equal(found.counts == 1, found.margins < limit)


def test_margins_are_kept_by_index_and_wrong_examples_have_none() -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, Linf("0.02"), steps=3)
    index = torch.tensor([7, 2, 19, 4, 5, 11, 1, 8, 9, 3])
    found = search(objective, x, y, index)
    table = objective.margins.table
    assert len(table) == 20
    torch.testing.assert_close(table[index], found.margins.float())
    assert [i for i in range(20) if table[i] > 0] == [1, 2, 3, 5, 7, 8, 11, 19]
    assert found.margins[3] == found.margins[8] == 0
    assert torch.equal(found.points[3], x[3]) and torch.equal(found.points[8], x[8])
    y[0] = (y[0] + 1) % 5
    objective(x[:1], y[:1], index[:1])
    assert objective.margins.table[7] == 0, "what is wrong now loses its margin"
    torch.testing.assert_close(objective.margins.table[index[1:]], found.margins[1:].float())


def test_the_next_search_is_as_wide_as_the_margin_was() -> None:
    radii: list[Tensor] = []

    class Watched(Linf):
        def random_start(self, x: Tensor, keys: Tensor, radius: Tensor | None = None) -> Tensor:
            assert radius is not None
            radii.append(radius)
            return super().random_start(x, keys, radius)

        def project(self, points: Tensor, x: Tensor, radius: Tensor | None = None) -> Tensor:
            assert radius is not None
            radii.append(radius)
            return super().project(points, x, radius)

    model = network()
    x, y = all_right(5)
    y[2] = (y[2] + 1) % 5
    index = torch.tensor([6, 0, 3, 9, 1])
    objective = MMA(model, Watched("0.06"), max_margin="0.2", steps=2)
    objective.margins.store(index[:4], torch.tensor([0.001, 0.125, 0.125, 0.5]))
    objective(x, y, index)
    expected = torch.tensor([0.01, 0.125, 1.05 * 0.2, 0.01], dtype=torch.float64)
    assert len(radii) == 1 + 1 + 2, "the start, its projection, and one after each step"
    for radius in radii:
        torch.testing.assert_close(radius, expected)


@given(st.lists(st.tuples(st.floats(0, 1.5), st.floats(0.01, 1)), min_size=1), st.integers(1, 30))
def test_bisection_ends_just_above_the_threshold(pairs: list[tuple[float, float]], rounds: int) -> None:
    thresholds, first = torch.tensor(pairs, dtype=torch.float64).unbind(dim=1)
    asked: list[Tensor] = []

    def is_wrong(lengths: Tensor) -> Tensor:
        asked.append(lengths)
        return lengths >= thresholds

    found = bisect(is_wrong, first, 1.0, rounds=rounds)
    assert len(asked) == rounds and torch.equal(asked[0], first)
    inside = thresholds <= 1
    assert (found >= thresholds)[inside].all()
    assert (found <= thresholds + 2.0 ** (1 - rounds))[inside].all()
    assert (found[~inside] == 1).all()
    tried = torch.stack([*asked, torch.ones_like(first)])
    assert (tried == found).any(dim=0).all(), "what is returned was tried"


@given(st.integers(0, 1000), st.sampled_from([Linf("0.3"), L2("1.5")]))
def test_points_stay_in_the_pixel_range_and_within_their_margin(seed: int, threat: Threat) -> None:
    keys = randomness.key(seed, torch.arange(6), "x")
    x = (2 * randomness.uniform(keys, SHAPE, torch.float64) - 0.5).clamp(0, 1)
    model = TinyNet()
    found = search(MMA(model, threat, steps=2, bisection_steps=3), x, said(model, x))
    assert found.points.min() >= 0 and found.points.max() <= 1
    assert (threat.norm(found.points - x) <= found.margins + 1e-9).all()
    assert not found.points.requires_grad and not found.margins.requires_grad


@pytest.mark.parametrize("threat", [Linf("0.1"), FromImage("0.3")], ids=str)
def test_an_image_in_the_corner_uphill_has_no_boundary(threat: Threat) -> None:
    model = Linear(classes=2)
    with torch.no_grad():
        model.bias[0] = 100
        x = (model.weight[1:] > model.weight[:1]).double()
    objective = MMA(model, threat)
    found = search(objective, x, torch.tensor([0]))
    torch.testing.assert_close(found.points, x)
    assert found.margins.tolist() == [pytest.approx(1.05 * 4 * threat.radius)] and found.counts.tolist() == [
        0
    ]


class Watching(nn.Module):
    """Notes what every forward pass of a network is like."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()
        self.seen: list[tuple[bool, bool, bool, int]] = []

    def forward(self, x: Tensor) -> Tensor:
        weight = next(self.parameters())
        self.seen.append((self.training, torch.is_grad_enabled(), weight.requires_grad, len(x)))
        logits: Tensor = self.model(x)
        return logits


def test_the_search_probes_the_right_examples_without_gradients_it_does_not_need() -> None:
    model = Watching()
    x, y = some_of_each()
    MMA(model, Linf("0.02"), steps=3, bisection_steps=5)(x, y, torch.arange(10))
    training, climbing, bisecting = (True, True, True, 10), (False, True, False, 8), (False, False, False, 8)
    assert model.seen == [training, *[climbing] * 3, *[bisecting] * 5, training]
    assert model.training and next(model.parameters()).requires_grad


@pytest.mark.parametrize("steps, bisections", [(1, 1), (4, 6)])
def test_passes_are_the_arithmetic_of_the_method(steps: int, bisections: int) -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, Linf("0.02"), steps=steps, bisection_steps=bisections)
    with Counter(model) as counter:
        objective(x, y, torch.arange(10)).loss.backward()
    assert (counter.forwards, counter.backwards) == (steps + bisections + 2, steps + 2)


def test_the_search_leaves_statistics_alone_and_the_images_are_what_counts() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), network()).double()
    other = copy.deepcopy(model)
    x, y = all_right()
    found = MMA(model, Linf("0.1"), steps=2, bisection_steps=3)(x, y, torch.arange(6))
    assert found.metrics["correct"] > 0 and found.metrics["margin"] > 0
    other(x)
    for mine, its in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, its)
    assert int(model.get_buffer("0.num_batches_tracked")) == 1
