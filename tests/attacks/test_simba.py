from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dctn, idctn
from torch import Tensor

from soar import randomness
from soar.attacks import ATTACKS, Examples, check_attack, run
from soar.attacks.simba import SimBA, dct_matrix, dct_waves
from soar.errors import UserError
from soar.threat import L1, L2, Linf, Threat
from tests.attacks.problems import Linear, TinyNet, images, said
from tests.attacks.replay import Constant, Rough, Shape, examples, follow, pictures

VARIANTS: list[dict[str, Any]] = [
    {},
    {"loss": "margin"},
    {"basis": "dct"},
    {"basis": "dct", "loss": "margin", "frequencies": 0.5},
    {"step": 0.05},
]


class ByHand:
    """The search of one example, one direction after the other, with the order that was drawn for it."""

    def __init__(self, attack: SimBA, some: Examples, i: int, threat: Threat) -> None:
        self.attack, self.threat, self.x = attack, threat, some.x[i]
        self.channels, self.height, self.width = self.x.shape
        share = attack.frequencies
        self.low = max(round(share * self.height), 1), max(round(share * self.width), 1)
        count = self.channels * self.low[0] * self.low[1]
        self.order = randomness.permutation(some.keys("simba")[[i]], count)[0].tolist()
        self.moved = self.x.numpy().copy()
        self.tries = [(number, sign) for number in self.order for sign in (-1, 1)]

    def direction(self, number: int) -> Any:
        c, rest = divmod(number, self.low[0] * self.low[1])
        u, v = divmod(rest, self.low[1])
        only = np.zeros((self.channels, self.height, self.width))
        only[c, u, v] = 1
        return idctn(only, axes=(1, 2), norm="ortho") if self.attack.basis == "dct" else only

    def length(self) -> float:
        if self.attack.step is not None:
            return float(self.attack.step)
        if self.attack.basis != "pixel" or isinstance(self.threat, L2):
            return 0.2
        return self.threat.radius if isinstance(self.threat, Linf) else min(self.threat.radius, 1.0)

    def tried(self) -> Any:
        number, sign = self.tries[0]
        return self.moved + sign * self.length() * self.direction(number)

    def asked(self) -> Tensor:
        return self.threat.project(torch.from_numpy(self.tried())[None], self.x[None])[0]

    def answer(self, *, helped: bool) -> None:
        tried, (_, sign) = self.tried(), self.tries.pop(0)
        if helped:
            self.moved = tried
            if sign < 0:
                self.tries.pop(0)


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.3), L1(3), L1(0.5)], ids=str)
@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("shape", [(1, 8, 6), (3, 3, 4)])
def test_the_search_is_its_description_written_out(
    shape: Shape, options: dict[str, Any], threat: Threat
) -> None:
    attack = SimBA(**options)
    model, x = Rough(shape, scale=0.5), pictures(3, shape)
    labels = said(model, x)
    with torch.no_grad():
        some = examples(x, labels, logits=model(x))
        highest = attack.score(model(x), attack.start(some, threat)).tolist()
    hands = [ByHand(attack, some, i, threat) for i in range(3)]
    for _, asked, answer in follow(attack, attack.start(some, threat), model, threat, 10):
        for i, hand in enumerate(hands):
            torch.testing.assert_close(asked[i], hand.asked(), rtol=0, atol=1e-12)
            loss = answer.loss[i].item()
            hand.answer(helped=loss > highest[i])
            highest[i] = max(loss, highest[i])


def test_the_published_loss_is_the_probability_of_the_label() -> None:
    model, x = TinyNet(), images(6)
    labels = said(model, x)
    some = examples(x, labels)
    logits = model(x).detach()
    state = SimBA().start(some, Linf(0.1))
    p = logits.softmax(dim=1)[torch.arange(6), labels]
    torch.testing.assert_close(SimBA().score(logits, state), -p)


def test_every_pixel_of_a_linear_model_goes_the_right_way() -> None:
    model, x = Linear(classes=2), images(10)
    labels = said(model, x)
    gradient = (model.weight[1] - model.weight[0]) * (1 - 2 * labels)[:, None, None, None]
    for loss in ("probability", "margin"):
        attack = ATTACKS.build("simba", {"loss": loss, "queries": "24"})
        found = run(model, attack, Linf("1/1000"), x, labels)
        assert found.robust.sum() >= 9
        corner = x + 0.001 * gradient.sign()
        torch.testing.assert_close(found.adversarial[found.robust], corner[found.robust])
        # One query for a pixel that goes down, two for one that goes up, and the image itself.
        passes = 1 + 12 + (gradient > 0).flatten(1).sum(dim=1)
        assert torch.equal(found.forward[found.robust], passes[found.robust])


@pytest.mark.parametrize("loss", ["probability", "margin"])
def test_it_breaks_linear_models_exactly_beyond_their_distance(loss: str) -> None:
    model, x = Linear(classes=2), images(60)
    labels = said(model, x)
    distances = model.distances(x, labels, 1)
    found = run(model, SimBA(queries=24, loss=loss), Linf(0.15), x, labels)  # type: ignore[arg-type]
    assert 15 < found.robust.sum() < 45
    assert torch.equal(found.robust, distances > 0.15)


@pytest.mark.parametrize("basis", ["pixel", "dct"])
def test_it_works_in_l2(basis: str) -> None:
    model, x = Linear(classes=2), images(60)
    labels = said(model, x)
    distances = model.distances(x, labels, 2)
    found = run(model, SimBA(basis=basis, loss="margin"), L2(0.6), x, labels)  # type: ignore[arg-type]
    assert found.robust[distances > 0.6].all()
    assert (1.5 * distances < 0.6).sum() > 15 and not found.robust[1.5 * distances < 0.6].any()


def test_a_saturated_softmax_stalls_the_probability_and_not_the_margin() -> None:
    model, x = Linear(classes=2), images(60).float()
    model.float().weight.data.mul_(1000)
    labels = said(model, x)
    reach = 2 * model.distances(x, labels, 1) < 0.2
    with torch.no_grad():
        stuck = reach & (model(x).softmax(dim=1).amax(dim=1) == 1)
    # One pixel must not be enough to leave the plateau.
    stuck &= model(x).detach().diff(dim=1).abs()[:, 0] > 1000
    assert stuck.sum() >= 5
    x, labels = x[stuck], labels[stuck]
    published = run(model, SimBA(), Linf(0.2), x, labels)
    assert published.robust.all() and (published.forward == 1 + 24).all()
    assert not run(model, SimBA(loss="margin"), Linf(0.2), x, labels).robust.any()


@pytest.mark.parametrize("basis", ["pixel", "dct"])
def test_passes_are_the_queries_and_no_gradients(basis: str) -> None:
    x, labels, model = pictures(5, (1, 4, 4)), torch.zeros(5, dtype=torch.int64), Constant()
    attack = SimBA(queries=17, basis=basis)  # type: ignore[arg-type]
    known = run(model, attack, Linf(0.1), x, labels, clean_logits=model(x).detach(), batch_size=3)
    assert known.robust.all() and (known.forward == 17).all() and (known.backward == 0).all()
    asked = run(model, attack, Linf(0.1), x, labels, batch_size=3)
    assert (asked.forward == 18).all() and attack.budget == 18
    # Each of 16 pixels is tried down and up, then nothing is left to try.
    everything = run(model, SimBA(), Linf(0.1), x, labels, batch_size=3)
    assert (everything.forward == 1 + 32).all()


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_known_clean_logits_do_not_change_the_search(options: dict[str, Any]) -> None:
    model, x = TinyNet(), images(20)
    labels = said(model, x)
    attack, threat = SimBA(queries=12, **options), Linf(0.03)
    asked = run(model, attack, threat, x, labels)
    known = run(model, attack, threat, x, labels, clean_logits=model(x).detach())
    assert torch.equal(asked.robust, known.robust) and torch.equal(asked.forward, known.forward + 1)
    improved = known.forward > 0
    torch.testing.assert_close(asked.adversarial[improved], known.adversarial[improved])


def test_images_that_are_wrong_from_the_start_are_not_attacked() -> None:
    model, x = TinyNet(), images(10)
    labels = said(model, x)
    labels[:4] = (labels[:4] + 1) % 5
    found = run(model, SimBA(queries=5), Linf(0.001), x, labels)
    assert found.correct.tolist() == [False] * 4 + [True] * 6
    assert (found.forward[:4] == 1).all() and (found.forward[4:] == 6).all()


def test_orders_differ_between_examples_and_hold_what_the_queries_can_reach() -> None:
    x = pictures(6, (3, 5, 5))
    some = examples(x, torch.zeros(6, dtype=torch.int64))
    whole = SimBA().start(some, Linf(0.1)).order
    assert (whole.sort(dim=1).values == torch.arange(75)).all()
    assert len({tuple(order.tolist()) for order in whole}) == 6
    assert torch.equal(SimBA(queries=7).start(some, Linf(0.1)).order, whole[:, :7])
    low = SimBA(basis="dct", frequencies=0.4).start(some, Linf(0.1)).order
    assert (low.sort(dim=1).values == torch.arange(3 * 2 * 2)).all()


def test_only_low_frequencies_are_used() -> None:
    shape = (3, 8, 12)
    model, x = Rough(shape), pictures(4, shape, 0.45, 0.55)
    labels = said(model, x)
    attack = SimBA(queries=100, basis="dct", loss="margin", frequencies=0.25, step=0.05)
    found = run(model, attack, Linf(0.4), x, labels)
    coefficients = np.abs(dctn((found.adversarial - x).numpy(), axes=(2, 3), norm="ortho"))
    assert coefficients[:, :, :2, :3].max() > 0.01
    coefficients[:, :, :2, :3] = 0
    assert coefficients.max() < 1e-9


def test_a_goal_is_reached_and_nothing_else_counts() -> None:
    model, x = TinyNet(classes=3), images(30)
    labels = said(model, x)
    goal = (labels + 1) % 3
    found = run(model, SimBA(loss="margin"), Linf(0.4), x, labels, goal=goal)
    assert (~found.robust).sum() > 5
    assert torch.equal(said(model, found.adversarial) == goal, ~found.robust)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_attack(SimBA(queries=6, **options))


@pytest.mark.parametrize(
    "options, label",
    [
        ({}, "SimBA"),
        ({"basis": "dct", "loss": "margin"}, "SimBA DCT margin"),
        ({"queries": 100, "step": "8/255"}, "SimBA-100 step 8/255"),
        ({"basis": "dct", "frequencies": 0.125}, "SimBA DCT 0.125"),
    ],
)
def test_labels_name_what_differs_from_the_plain_attack(options: dict[str, Any], label: str) -> None:
    attack = ATTACKS.build("simba", {name: str(value) for name, value in options.items()})
    assert attack.label == label == SimBA(**options).label


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"queries": 0}, "attack.queries: got 0, expected at least 1"),
        ({"basis": "pixle"}, r"unknown basis 'pixle' \(attack.basis\); did you mean 'pixel'"),
        ({"loss": "marign"}, r"unknown loss 'marign' \(attack.loss\); did you mean 'margin'"),
        ({"step": 0}, "attack.step: got 0, expected a number above 0"),
        ({"basis": "dct", "frequencies": 0.0}, "attack.frequencies: got 0.0, expected a share above 0"),
        ({"basis": "dct", "frequencies": math.nan}, "attack.frequencies: got nan"),
        ({"frequencies": 0.5}, "attack.frequencies: got 0.5, expected 1 unless basis is dct"),
    ],
)
def test_senseless_options_are_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SimBA(**bad)


@pytest.mark.parametrize("height, width", [(1, 1), (4, 4), (3, 8), (28, 28), (32, 20)])
def test_the_matrices_are_scipys_transform(height: int, width: int) -> None:
    image = pictures(1, (1, height, width))[0, 0]
    expected = dctn(image.numpy(), norm="ortho")
    ours = dct_matrix(height) @ image @ dct_matrix(width).T
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-12)


@given(st.integers(1, 40))
def test_waves_are_orthonormal(size: int) -> None:
    matrix = dct_matrix(size)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size, dtype=torch.float64), rtol=0, atol=1e-12)


def test_each_wave_is_one_coefficient_of_scipys_transform() -> None:
    down, across = torch.tensor([0, 2, 4, 1]), torch.tensor([0, 5, 3, 0])
    waves = dct_waves(down, across, torch.zeros(1, 1, 5, 6, dtype=torch.float64))
    for wave, u, v in zip(waves, down.tolist(), across.tolist(), strict=True):
        only = np.zeros((5, 6))
        only[u, v] = 1
        np.testing.assert_allclose(wave.numpy(), idctn(only, norm="ortho"), atol=1e-12)


def test_waves_come_in_the_type_of_the_images() -> None:
    like = torch.zeros(1, 1, 3, 3)
    assert dct_waves(torch.tensor([1]), torch.tensor([1]), like).dtype == torch.float32
