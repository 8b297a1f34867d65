from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import checkpoints
from soar.cost import Counter
from soar.errors import UserError
from soar.objectives import MMA, Output, Standard, check_objective
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import TinyNet, images, said
from tests.objectives.mma_problems import (
    PATTERN,
    FixedL2,
    FixedLinf,
    all_right,
    holding,
    network,
    search,
    some_of_each,
)
from tests.training import small


def written_out(
    model: nn.Module, threat: Threat, x: Tensor, y: Tensor, stored: list[float], *, share: float
) -> tuple[Tensor, list[float], int]:
    """The definition, one example after the other; gives loss, margins and how many boundary points count."""
    steps, rounds = 4, 7
    limit, least = 4 * threat.radius, threat.radius / 6
    losses, margins, counted = [], [], 0

    def margin_at(point: Tensor, label: int) -> Tensor:
        z = model(point)[0]
        others = [z[j] for j in range(len(z)) if j != label]
        found: Tensor = torch.stack(others).exp().sum().log() - z[label]
        return found

    def loss_at(point: Tensor, label: int) -> Tensor:
        z = model(point)[0]
        found: Tensor = z.exp().sum().log() - z[label]
        return found

    def back_into_the_ball(delta: Tensor, radius: float) -> Tensor:
        if isinstance(threat, Linf):
            return delta.clamp(-radius, radius)
        return delta * min(1.0, radius / float(delta.norm()))

    for i, label in enumerate(y.tolist()):
        image = x[i : i + 1]
        natural = loss_at(image, label)
        if margin_at(image, label).item() >= 0:
            margins.append(0.0)
            losses.append(natural)
            continue
        radius = min(max(stored[i], least), 1.05 * limit)
        delta = radius * (PATTERN if isinstance(threat, Linf) else PATTERN / PATTERN.norm() / 2)
        for _ in range(steps):
            point = (image + delta).requires_grad_()
            (slope,) = torch.autograd.grad(margin_at(point, label), point)
            uphill = slope.sign() if isinstance(threat, Linf) else slope / slope.norm()
            delta = back_into_the_ball(delta + 2.5 * radius / steps * uphill, radius)
        low, high, length = 0.0, 1.05 * limit, radius
        for _ in range(rounds):
            if margin_at(image + length * delta / radius, label).item() >= 0:
                high = length
            else:
                low = length
            length = (low + high) / 2
        margins.append(high)
        there = loss_at(image + high * delta / radius, label)
        counted += high < limit
        losses.append(share * natural + (1 - share) * (there if high < limit else 0 * there))
    return torch.stack(losses).mean(), margins, counted


@pytest.mark.parametrize("threat", [FixedLinf("0.003"), FixedL2("0.01")], ids=str)
@pytest.mark.parametrize("share", [None, 0.0, 0.8])
def test_loss_gradient_and_margins_are_the_formula_written_out(threat: Threat, share: float | None) -> None:
    model = network()
    x, y = some_of_each()
    options = {} if share is None else {"clean_loss_fraction": share}
    objective = MMA(model, threat, steps=4, bisection_steps=7, **options)  # type: ignore[arg-type]
    stored = [0.0] * 10
    for step in range(2):  # the second search begins with the margins of the first
        found = objective(x, y, torch.arange(10), step)
        expected, margins, counted = written_out(
            model, threat, x, y, stored, share=1 / 3 if share is None else share
        )
        assert 3 <= counted <= 6, "some boundaries are nearer than the limit and some are not"
        torch.testing.assert_close(found.loss, expected)
        torch.testing.assert_close(objective.margins.table, torch.tensor(margins))
        parameters = list(model.parameters())
        ours = torch.autograd.grad(found.loss, parameters)
        theirs = torch.autograd.grad(expected, parameters)
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-10)
        stored = objective.margins.table.tolist()


def test_right_is_stricter_than_the_likeliest_class() -> None:
    model, x = TinyNet(), images(24)
    y = said(model, x)
    with torch.no_grad():
        probability = model(x).softmax(dim=1).gather(1, y[:, None])[:, 0]
    sure = probability > 0.5
    assert 10 < sure.sum() < 20
    found = MMA(model, Linf("0.02"))(x, y, torch.arange(24))
    torch.testing.assert_close(found.metrics["correct"], sure.double().mean())


def test_a_batch_of_wrong_examples_is_trained_at_the_images_without_a_search() -> None:
    model = network()
    x, y = all_right()
    y = (y + 1) % 5
    objective = MMA(model, Linf("0.02"))
    with Counter(model) as counter:
        found = objective(x, y, torch.arange(6))
    assert counter.forwards == 2
    torch.testing.assert_close(found.loss, Standard(model)(x, y).loss)
    assert [float(found.metrics[name]) for name in ("margin", "correct", "counted")] == [0, 0, 1]
    assert torch.equal(objective.margins.table, torch.zeros(6))
    boundary = search(objective, x, y)
    assert torch.equal(boundary.points, x) and torch.equal(boundary.counts, torch.ones(6).double())


def test_a_batch_of_right_examples_is_trained_at_their_boundaries() -> None:
    model = network()
    x, y = all_right()
    found = MMA(model, Linf("0.01"), clean_loss_fraction=0)(x, y, torch.arange(6))
    assert [float(found.metrics[name]) for name in ("correct", "counted")] == [1, 1]
    expected = torch.nn.functional.cross_entropy(found.logits, y)
    torch.testing.assert_close(found.loss.detach(), expected)
    # On the boundary by the soft margin the label has a probability of one half, or just below.
    assert math.log(2) <= found.loss.item() < math.log(2) + 0.01


def test_examples_beyond_the_limit_count_only_at_the_images() -> None:
    model = network()
    x, y = all_right()
    objective = MMA(model, Linf("1/10000"), clean_loss_fraction=0.25)
    found = objective(x, y, torch.arange(6))
    torch.testing.assert_close(found.loss, 0.25 * Standard(model)(x, y).loss)
    assert [float(found.metrics[name]) for name in ("correct", "counted")] == [1, 0]
    torch.testing.assert_close(objective.margins.table, torch.full((6,), 1.05 * 4e-4))


def test_metrics_and_logits_say_what_happened() -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, Linf("0.003"))
    boundary = search(objective, x, y)
    with holding(boundary).replaying():
        found = objective(x, y, torch.arange(10))
    torch.testing.assert_close(found.metrics["margin"], boundary.margins.mean())
    torch.testing.assert_close(found.metrics["counted"], boundary.counts.mean())
    assert float(found.metrics["correct"]) == 0.8 and 0.2 < float(found.metrics["counted"]) < 1
    torch.testing.assert_close(found.metrics["cross_entropy"], Standard(model)(x, y).loss.detach())
    torch.testing.assert_close(found.logits, model(boundary.points).detach())


def test_gradient_agrees_with_finite_differences_at_fixed_points() -> None:
    model = network()
    x, y = some_of_each()
    objective = MMA(model, L2("0.01"), steps=3)
    boundary = search(objective, x, y)
    assert 2 < boundary.counts.sum() < 10

    def loss() -> Tensor:
        with holding(boundary).replaying():
            output: Output = objective(x, y, torch.arange(10), 0)
            return output.loss

    for weight in model.parameters():
        (slope,) = torch.autograd.grad(loss(), weight)
        nudge = torch.ones_like(weight)
        with torch.no_grad():
            weight.add_(1e-6 * nudge)
            above = loss().item()
            weight.sub_(2e-6 * nudge)
            below = loss().item()
            weight.add_(1e-6 * nudge)
        assert float((slope * nudge).sum()) == pytest.approx((above - below) / 2e-6, rel=1e-4, abs=1e-7)


def test_starts_depend_on_seed_step_and_index() -> None:
    model = network()
    x, y = all_right(4)

    def points(index: Tensor, *, seed: int = 0, step: int = 0) -> Tensor:
        return search(MMA(model, L2("0.1"), steps=1, seed=seed), x, y, index, step).points

    first = points(torch.arange(4))
    assert torch.equal(points(torch.arange(4)), first)
    for other in (
        points(torch.arange(4), seed=1),
        points(torch.arange(4), step=1),
        points(torch.arange(4) + 4),
    ):
        assert not torch.equal(other, first)


def test_limits_follow_the_threat_unless_they_were_given() -> None:
    model = TinyNet()
    assert MMA(model, Linf("6/255")).limits(Linf("6/255")) == pytest.approx((1 / 255, 24 / 255))
    assert MMA(model, Linf("6/255")).limits(Linf("3/255")) == pytest.approx((0.5 / 255, 12 / 255))
    given_both = MMA(model, Linf("6/255"), max_margin="32/255", min_margin=0.005)
    assert given_both.limits(Linf("3/255")) == pytest.approx((0.005, 32 / 255))


def test_a_replaced_threat_is_used() -> None:
    model = network()
    x, y = all_right()
    objective = MMA(model, Linf("0.1"))
    assert float(objective(x, y, torch.arange(6)).metrics["counted"]) == 1
    objective.threat = Linf("1/10000")
    assert float(objective(x, y, torch.arange(6)).metrics["counted"]) == 0


@pytest.mark.parametrize(
    "options", [{"steps": 1, "bisection_steps": 1}, {"clean_loss_fraction": 0.5, "max_margin": 0.5}]
)
def test_every_variant_keeps_the_contract(options: dict[str, Any]) -> None:
    # A margin of 0.5 is below the smallest one that belongs to an l1 ball of 4.
    norms = ("linf", "l2") if "max_margin" in options else ("linf", "l2", "l1")
    check_objective(lambda model, threat: MMA(model, threat, **options), norms=norms)


class Interrupt:
    """Asks the training to stop after a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def log(self, step: int, row: Mapping[str, float | str]) -> None:
        if step == self.at:
            signal.raise_signal(signal.SIGTERM)

    def close(self) -> None: ...


@pytest.mark.parametrize("at", [4, 9, 12])
def test_an_interrupted_training_resumes_with_its_margins(tmp_path: Path, at: int) -> None:
    def objective() -> MMA:
        return MMA(small.network(), Linf("8/255"), steps=2, bisection_steps=5)

    changes: dict[str, Any] = {"lr": 0.05}

    whole, first, second = objective(), objective(), objective()
    straight = small.trainer(tmp_path / "whole", objective=whole, **changes)
    straight.fit()
    run = tmp_path / "parts"
    assert small.trainer(run, objective=first, sinks=[Interrupt(at)], **changes).fit().steps == at
    newest = checkpoints.newest_usable(run)
    assert newest is not None
    saved = torch.load(newest / "trainer.pt", weights_only=True)["objective"]
    assert torch.equal(saved["margins._extra_state"], first.margins.table)
    resumed = small.trainer(run, objective=second, resume=True, **changes)
    assert resumed.fit().status == "finished"
    assert torch.equal(second.margins.table, whole.margins.table)
    assert small.same(small.weights(resumed), small.weights(straight))
    assert small.rows(run) == small.rows(tmp_path / "whole")
    assert len(whole.margins.table) == 48 and len(whole.margins.table.unique()) > 8
    assert first.margins.table.count_nonzero() > 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, r"objective\.steps: got 0, expected at least 1 \(flag --objective\.steps\)"),
        ({"bisection_steps": 0}, r"objective\.bisection_steps: got 0, expected at least 1"),
        ({"clean_loss_fraction": 2}, r"objective\.clean_loss_fraction: got 2, expected from 0 to 1"),
        ({"max_margin": "0"}, r"objective\.max_margin: got 0, expected a number above 0"),
        ({"min_margin": "wide"}, r"objective\.min_margin: got 'wide', expected a positive number"),
        (
            {"min_margin": 0.2, "max_margin": 0.1},
            r"objective\.min_margin: got 0\.2, expected below objective\.max_margin, which is 0\.1",
        ),
        ({"min_margin": "0.4"}, r"objective\.min_margin: got 0\.4, .* which is 0\.4"),
    ],
)
def test_bad_values_are_refused_when_the_objective_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        MMA(TinyNet(), Linf("0.1"), **options)


def test_what_it_cannot_do_without_is_asked_for() -> None:
    with pytest.raises(UserError, match="MMA needs a threat"):
        MMA(TinyNet(), None)  # type: ignore[arg-type]
    objective = MMA(TinyNet(), Linf("0.1"))
    with pytest.raises(UserError, match="MMA keeps values per example, so its data need indices"):
        objective(images(2), torch.tensor([0, 1]))
