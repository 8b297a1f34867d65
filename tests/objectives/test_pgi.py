from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from soar import checkpoints, randomness
from soar.attacks.recall import Recall, recalled
from soar.cost import Counter
from soar.objectives import PGI, check_objective
from soar.objectives.pgi import Continued
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Passes, TinyNet, images
from tests.objectives import shared
from tests.objectives.shared import INDEX, STEP, for_threats, problem
from tests.objectives.test_mma import Interrupt
from tests.training import small


def found_by(objective: PGI, x: Tensor, y: Tensor, step: int = STEP) -> Continued:
    recall = Recall()
    with recall.recording():
        objective(x, y, INDEX, step)
    with recall.replaying():
        return recalled(lambda: Continued(x, x, x))


def fresh(x: Tensor, threat: Threat, step: int, seed: int = 0) -> Tensor:
    keys = randomness.key(seed, INDEX, "pgi start", step)
    if isinstance(threat, Linf):
        return x + threat.radius * randomness.sign(keys, SHAPE, torch.float64)
    return threat.random_start(x, keys)


def moved(start: Tensor, direction: Tensor, image: Tensor, threat: Threat) -> Tensor:
    """One step of length eps and back to the ball, for an image that the pixel range does not limit."""
    eps = threat.radius
    if isinstance(threat, Linf):
        return image + (start + eps * direction.sign() - image).clamp(-eps, eps)
    delta: Tensor = start + eps * direction / torch.linalg.vector_norm(direction) - image
    return image + delta * min(1.0, eps / float(torch.linalg.vector_norm(delta)))


class Remembered:
    """The method, example by example, with the numbers kept as float16."""

    def __init__(self, threat: Threat, momentum: float, reset_after: int, seed: int) -> None:
        self.threat, self.momentum, self.reset_after, self.seed = threat, momentum, reset_after, seed
        self.visits = 0
        self.starts = self.momenta = torch.zeros(6, *SHAPE, dtype=torch.float64)

    def visit(self, model: nn.Module, x: Tensor, y: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """The starts, and where one step from them ends."""
        eps = self.threat.radius
        starts, momenta = x + eps * self.starts, self.momenta
        if self.visits % self.reset_after == 0:
            starts, momenta = fresh(x, self.threat, step, self.seed), torch.zeros_like(x)
        ends, onward, kept = [], [], []
        for i in range(6):
            leaf = starts[i].clone().requires_grad_()
            (g,) = torch.autograd.grad(shared.loss_of(model, leaf, y[i]), leaf)
            kept.append(self.momentum * momenta[i] + g * g.numel() / g.abs().sum())
            ends.append(moved(starts[i], g, x[i], self.threat))
            onward.append(moved(starts[i], kept[i], x[i], self.threat))
        self.visits += 1
        self.starts = ((torch.stack(onward) - x) / eps).half().double()
        self.momenta = torch.stack(kept).half().double()
        return starts, torch.stack(ends)


@for_threats
@pytest.mark.parametrize(
    "options", [{}, {"momentum": 0.0}, {"weight": 0.5, "momentum": 0.9, "reset_after": 2, "seed": 4}], ids=str
)
def test_loss_and_gradient_are_the_formula_written_out_at_every_visit(
    threat: Threat, options: dict[str, Any]
) -> None:
    model, _, y = problem()
    objective = PGI(model, threat, **options)
    own = Remembered(
        threat, options.get("momentum", 0.3), options.get("reset_after", 40), options.get("seed", 0)
    )
    for step in range(5):
        x = images(6, seed=step)
        # What is read from float16 may leave the l2 ball by its rounding, and is projected.
        starts, ends = own.visit(model, x, y, step)
        found = objective(x, y, INDEX, step)
        losses = []
        for start, end, label in zip(starts, ends, y, strict=True):
            change = model(end[None])[0] - model(start[None])[0]
            losses.append(
                shared.loss_of(model, end, label) + options.get("weight", 10.0) * change.square().sum() / 5
            )
        loss = torch.stack(losses).mean()
        torch.testing.assert_close(found.loss, loss, rtol=1e-3 if isinstance(threat, L2) else 1e-9, atol=0)
        if isinstance(threat, Linf):
            shared.assert_same_gradients(model, found.loss, loss)


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_the_next_visit_begins_where_momentum_leads_and_without_it_at_the_last_point(momentum: float) -> None:
    model, x, y = problem()
    objective = PGI(model, Linf("0.05"), momentum=momentum)
    found_by(objective, x, y, 0)
    # Another label makes the gradient differ from the one before.
    last = found_by(objective, x, (y + 1) % 5, 1).points
    next_start = found_by(objective, x, y, 2).start
    assert torch.allclose(next_start, last, atol=1e-4) == (momentum == 0)
    assert len(objective.momenta.table) == (26 if momentum else 0)


def test_examples_begin_anew_after_their_own_number_of_visits() -> None:
    model, x, y = problem()
    objective, threat = PGI(model, Linf("0.05"), reset_after=3), Linf("0.05")
    objective(x[:2], y[:2], INDEX[:2], 0)
    for step in range(1, 7):
        starts = found_by(objective, x, y, step).start
        begun = (starts == fresh(x, threat, step)).flatten(1).all(dim=1)
        # The first two have been seen once more often than the others.
        assert begun.tolist() == [step % 3 == 0] * 2 + [step % 3 == 1] * 4
    assert objective.visits.of(INDEX).tolist() == [7, 7, 6, 6, 6, 6]


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([Linf, L2]), st.floats(0.001, 0.9), st.floats(0, 1))
def test_starts_and_points_are_where_the_threat_allows(
    seed: int, norm: type[Threat], eps: float, momentum: float
) -> None:
    model, _, y = problem()
    keys = randomness.key(seed, INDEX, "anywhere")
    objective = PGI(model, norm(eps), momentum=momentum, seed=seed)
    for step in range(3):
        # Crops and flips show another image at every visit.
        x = (1.5 * randomness.uniform(keys + step, SHAPE, torch.float64) - 0.25).clamp(0, 1)
        found = found_by(objective, x, y, step)
        for points in (found.start, found.points):
            assert norm(eps).contains(points, x).all() and not points.requires_grad


def test_an_eps_that_grows_scales_what_is_remembered() -> None:
    model, x, y = problem()
    objective = PGI(model, Linf("0.01"), momentum=0.0)
    before = found_by(objective, x, y, 0)
    objective.threat = Linf("0.04")
    after = found_by(objective, x, y, 1)
    torch.testing.assert_close(after.start - x, 4 * (before.points - x), rtol=0, atol=1e-4)


def test_a_gradient_in_one_pixel_of_a_large_image_can_be_remembered() -> None:
    class OnePixel(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([x.flatten(1)[:, 0], -x.flatten(1)[:, 0]], dim=1)

    objective, x = PGI(OnePixel(), L2("0.5")), torch.full((1, 3, 160, 160), 0.5)
    for step in range(3):
        found = objective(x, torch.tensor([0]), torch.tensor([0]), step)
        assert found.loss.isfinite()
    assert objective.momenta.table.isfinite().all() and objective.momenta.table.max() == 0


def test_a_second_pass_over_a_batch_is_no_visit() -> None:
    model, x, y = problem()
    objective, recall = PGI(model, Linf("0.05")), Recall()
    with recall.recording():
        first = objective(x, y, INDEX, STEP).loss
    with recall.replaying():
        second = objective(x, y, INDEX, STEP).loss
    assert torch.equal(first, second)
    assert objective.visits.of(INDEX).tolist() == [1] * 6


@pytest.mark.parametrize("at", [4, 9, 12])
def test_an_interrupted_training_resumes_with_its_perturbations(tmp_path: Path, at: int) -> None:
    def objective() -> PGI:
        return PGI(small.network(), Linf("8/255"), reset_after=2)

    def kept(made: PGI) -> dict[str, Tensor]:
        return {name: x for name, x in made.state_dict().items() if not name.startswith("model.")}

    whole, first, second = objective(), objective(), objective()
    straight = small.trainer(tmp_path / "whole", objective=whole)
    straight.fit()
    run = tmp_path / "parts"
    assert small.trainer(run, objective=first, sinks=[Interrupt(at)]).fit().steps == at
    newest = checkpoints.newest_usable(run)
    assert newest is not None
    saved = torch.load(newest / "trainer.pt", weights_only=True)["objective"]
    assert small.same(saved, kept(first)) and saved["starts._extra_state"].any()
    assert saved["momenta._extra_state"].any()
    resumed = small.trainer(run, objective=second, resume=True)
    assert resumed.fit().status == "finished"
    assert small.same(kept(second), kept(whole))
    assert small.same(small.weights(resumed), small.weights(straight))
    assert small.rows(run) == small.rows(tmp_path / "whole")
    assert whole.visits.table.tolist() == [3] * 48


@for_threats
def test_alignment_compares_the_gradients_before_and_after_the_step(threat: Threat) -> None:
    model, x, y = problem()
    objective, recall = PGI(model, threat), Recall()
    with recall.recording():
        output = objective(x, y, INDEX, STEP)
    output.loss.backward()
    with recall.replaying():
        found = recalled(lambda: Continued(x, x, x))
    leaf = found.points.clone().requires_grad_()
    logits, before = model(leaf), model(found.start).detach()
    loss = torch.nn.functional.cross_entropy(logits, y) + 10 * (logits - before).square().mean()
    (further,) = torch.autograd.grad(loss, leaf)
    expected = torch.nn.functional.cosine_similarity(found.gradient.flatten(1), further.flatten(1)).mean()
    torch.testing.assert_close(output.metrics["alignment"], expected)


def test_passes_are_the_arithmetic_of_the_method() -> None:
    passes = Passes()
    _, x, y = problem()
    PGI(passes, Linf("0.1"))(x, y, INDEX)
    assert passes.modes == [False, True, True]
    model = TinyNet()
    with Counter(model) as counter:
        PGI(model, Linf("0.1"))(x, y, INDEX).loss.backward()
    assert (counter.forwards, counter.backwards) == (3, 3)


def test_only_the_attacked_points_count_for_batch_norm() -> None:
    model, x, y = problem()
    norm = nn.BatchNorm2d(1).double()
    points = found_by(PGI(nn.Sequential(norm, model), Linf("0.05")), x, y).points
    assert int(norm.get_buffer("num_batches_tracked")) == 1
    torch.testing.assert_close(norm.get_buffer("running_mean"), 0.1 * points.mean(dim=(0, 2, 3)))


@pytest.mark.parametrize(
    "options", [{"momentum": 0.0, "weight": 1.0}, {"reset_after": 1, "momentum": 1.0}], ids=str
)
def test_every_option_keeps_the_contract(options: dict[str, Any]) -> None:
    check_objective(lambda model, threat: PGI(model, threat, **options))


@shared.for_refusals(
    shared.negative("weight"),
    (
        {"momentum": 1.5},
        "objective.momentum: got 1.5, expected from 0 to 1 (flag --objective.momentum)",
    ),
    (
        {"reset_after": 0},
        "objective.reset_after: got 0, expected at least 1 (flag --objective.reset_after)",
    ),
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    shared.assert_refused(PGI, options, message)


def test_it_needs_a_threat() -> None:
    shared.assert_refused_without_a_threat(PGI)
