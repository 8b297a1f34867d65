from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import FGSM, PGD, Answer, Attack, AttackProgress, Examples, Outcomes, run
from soar.errors import UserError
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, Linear, TinyNet, images, said


class Counting(nn.Module):
    """Counts the samples that go through, to check the engine's own books."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.forward_samples = self.backward_samples = 0
        self.batches: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.forward_samples += len(x)
        self.batches.append(len(x))
        if x.requires_grad:
            self.backward_samples += len(x)
        logits: Tensor = self.model(x)
        return logits


@pytest.mark.parametrize("threat", [Linf(0.05), L2(0.2)], ids=str)
@pytest.mark.parametrize("restarts", [1, 4])
@pytest.mark.parametrize("targets", [0, 3])
def test_results_do_not_depend_on_batch_size_or_order(threat: Threat, restarts: int, targets: int) -> None:
    model, x = TinyNet(), images(40)
    labels = said(model, x)
    attack = PGD(steps=6, restarts=restarts, targets=targets, loss="margin")
    found = {size: run(model, attack, threat, x, labels, batch_size=size) for size in (1, 7, 64)}
    assert 0 < found[1].robust.sum() < 40
    for size in (7, 64):
        assert torch.equal(found[size].robust, found[1].robust)
        torch.testing.assert_close(found[size].adversarial, found[1].adversarial, rtol=0, atol=1e-9)
        assert torch.equal(found[size].predictions, found[1].predictions)
    assert torch.equal(
        found[1].predictions, torch.where(found[1].robust, labels, said(model, found[1].adversarial))
    )
    order = torch.arange(39, -1, -1)
    turned = run(model, attack, threat, x[order], labels[order], index=order, batch_size=7)
    assert torch.equal(turned.robust[order], found[1].robust)
    torch.testing.assert_close(turned.adversarial[order], found[1].adversarial, rtol=0, atol=1e-9)
    assert torch.equal(turned.predictions[order], found[1].predictions)


def test_without_running_ahead_the_passes_do_not_depend_on_the_batch_size_either() -> None:
    model, x = TinyNet(), images(40)
    labels = said(model, x)
    one = run(model, PGD(steps=6), Linf(0.05), x, labels, batch_size=1)
    many = run(model, PGD(steps=6), Linf(0.05), x, labels, batch_size=64)
    assert torch.equal(one.forward, many.forward)
    assert torch.equal(one.backward, many.backward)


@pytest.mark.parametrize("restarts", [1, 3])
def test_the_engine_counts_what_really_went_through_the_model(restarts: int) -> None:
    model, x = TinyNet(), images(50)
    labels = said(model, x)
    counting = Counting(model)
    found = run(counting, PGD(steps=5, restarts=restarts), Linf(0.05), x, labels, batch_size=8)
    assert counting.forward_samples == found.forward.sum()
    assert counting.backward_samples == found.backward.sum()


def test_broken_images_stop_at_once_and_robust_ones_use_exactly_the_budget() -> None:
    model, x = TinyNet(), images(60)
    labels = said(model, x)
    found = run(model, PGD(steps=20), Linf(0.05), x, labels, batch_size=16)
    robust = found.robust
    # One prediction at the image, then 20 steps from 20 gradients and 21 predictions.
    assert (found.forward[robust] == 22).all() and (found.backward[robust] == 20).all()
    weak = run(model, PGD(steps=20), Linf(0.5), x, labels, batch_size=16)
    assert not weak.robust.any()
    assert weak.forward.double().mean() < 5 and weak.backward.double().mean() < 4


def test_restarts_end_with_the_first_success() -> None:
    model, x = TinyNet(), images(60)
    labels = said(model, x)
    once = run(model, PGD(steps=5), Linf(0.05), x, labels, batch_size=1)
    often = run(model, PGD(steps=5, restarts=6), Linf(0.05), x, labels, batch_size=1)
    broken_at_once = ~once.robust
    assert torch.equal(often.forward[broken_at_once], once.forward[broken_at_once])
    assert torch.equal(often.adversarial[broken_at_once], once.adversarial[broken_at_once])
    assert (often.backward[often.robust] == 30).all()
    assert not (often.robust & ~once.robust).any()


def test_the_batch_stays_full_while_examples_wait() -> None:
    model, x = TinyNet(), images(100)
    counting = Counting(model)
    run(counting, PGD(steps=10), Linf(0.05), x, said(model, x), batch_size=10)
    attacking = counting.batches[10:]
    # Only the tail, when fewer examples are left than places, may run smaller batches.
    first_short = next((i for i, size in enumerate(attacking) if size < 10), len(attacking))
    assert sum(attacking[:first_short]) > 0.7 * sum(attacking)


def test_an_emptying_batch_is_filled_with_further_restarts() -> None:
    model, x = TinyNet(), images(3)
    labels = said(model, x)
    counting = Counting(model)
    found = run(counting, PGD(steps=4, restarts=8), Linf("1/1000"), x, labels, batch_size=24)
    assert found.robust.all()
    # The image, the first restart of each alone, then all others at once.
    assert max(counting.batches) == 3 * 7
    assert len(counting.batches) == 1 + 5 + 5


def test_examples_that_are_wrong_already_are_not_attacked() -> None:
    model, x = TinyNet(), images(20)
    labels = said(model, x)
    labels[:8] = (labels[:8] + 1) % 5
    found = run(model, PGD(steps=3), Linf(0.01), x, labels)
    assert not found.correct[:8].any() and not found.robust[:8].any()
    assert (found.forward[:8] == 1).all() and (found.backward[:8] == 0).all()
    assert torch.equal(found.adversarial[:8], x[:8])
    assert torch.equal(found.predictions[:8], said(model, x[:8]))


def test_an_attack_that_starts_at_the_image_finds_out_which_images_are_correctly_classified() -> None:
    model, x = TinyNet(), images(20)
    labels = said(model, x)
    labels[:8] = (labels[:8] + 1) % 5
    with torch.no_grad():
        logits = model(x)
    counting = Counting(model)
    found = run(counting, FGSM(), Linf(0.05), x, labels, batch_size=6)
    known = run(model, FGSM(), Linf(0.05), x, labels, clean_logits=logits)
    assert torch.equal(found.correct, known.correct) and torch.equal(found.robust, known.robust)
    assert (found.forward[8:] == 2).all() and (found.forward[:8] == 1).all()
    assert (found.backward == 1).all()
    assert counting.forward_samples == found.forward.sum()
    assert torch.equal(found.adversarial[:8], x[:8])
    assert torch.equal(found.predictions[:8], said(model, x[:8])) and torch.equal(
        found.predictions, known.predictions
    )


def test_known_answers_are_not_asked_for_again() -> None:
    model, x = TinyNet(), images(10)
    labels = said(model, x)
    with torch.no_grad():
        logits = model(x)
    fresh = run(model, PGD(steps=3), Linf(0.02), x, labels)
    known = run(model, PGD(steps=3), Linf(0.02), x, labels, clean_logits=logits)
    assert torch.equal(known.forward, fresh.forward - 1)
    assert torch.equal(known.robust, fresh.robust)


def test_every_adversarial_point_is_inside_and_really_fools() -> None:
    model, x = TinyNet(), images(60)
    labels = said(model, x)
    for threat in (Linf(0.05), L2(0.2)):
        found = run(model, PGD(steps=8), threat, x, labels)
        assert threat.contains(found.adversarial, x).all()
        assert torch.equal(said(model, found.adversarial) == labels, found.robust)


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Dropout(), nn.Linear(8, 3))
    model[1].eval()
    model[4].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    run(model, PGD(steps=2), Linf(0.1), images(6).float(), torch.zeros(6, dtype=torch.int64))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert modes == [module.training for module in model.modules()]
    assert flags == [parameter.requires_grad for parameter in model.parameters()]
    assert all(parameter.grad is None for parameter in model.parameters())


@dataclass(frozen=True)
class Liar(PGD):
    """Asks for points outside the ball and claims nothing else."""

    def query(self, state: object) -> Tensor:
        return torch.ones(len(state.points), *SHAPE, dtype=torch.float64)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class OutsideLiar(Liar):
    """Also says that it may look outside of the ball."""

    stays_inside: ClassVar[bool] = False


@pytest.mark.parametrize("attack", [Liar(steps=3), OutsideLiar(steps=3)])
def test_an_attack_that_leaves_the_ball_gains_nothing(attack: PGD) -> None:
    model, x = Linear(), images(30)
    labels = said(model, x)
    eps = 0.9 * model.distances(x, labels, dual=1).min().item()
    found = run(model, attack, Linf(eps), x, labels)
    assert found.robust.all()
    assert Linf(eps).contains(found.adversarial, x).all()


def test_a_gradient_that_is_not_a_number_does_not_end_the_search() -> None:
    class Sore(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            # sqrt has an infinite derivative at 0, and 0 times infinity is not a number.
            first = x.flatten(1)[:, :1]
            hurt = (first - first.detach()).abs().sqrt() * 0
            return torch.cat([first + hurt, 1 - first], dim=1)

    x = torch.full((4, *SHAPE), 0.6, dtype=torch.float64)
    found = run(Sore(), PGD(steps=5), Linf(0.05), x, torch.zeros(4, dtype=torch.int64))
    assert found.adversarial.isfinite().all()


def test_a_model_that_cuts_the_graph_has_no_gradient() -> None:
    class Cut(TinyNet):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.detach())

    model, x = Cut(), images(6)
    labels = said(model, x)
    found = run(model, PGD(steps=3, random_start=False), Linf(0.2), x, labels)
    assert found.robust.all() and torch.equal(found.adversarial, x)


def test_the_prediction_is_known_when_an_example_is_settled() -> None:
    model, x = TinyNet(), images(30)
    labels = said(model, x)
    told: dict[int, int] = {}

    def listen(progress: AttackProgress, outcomes: Outcomes) -> None:
        told.update({row: int(outcomes.predictions[row]) for row in progress.settled})

    attack = PGD(steps=4, restarts=3, targets=2, loss="margin")
    found = run(model, attack, Linf(0.05), x, labels, batch_size=8, progress=listen)
    assert [told[row] for row in range(30)] == found.predictions.tolist()
    assert torch.equal(found.predictions == labels, found.robust)


def test_goals_count_only_the_class_that_was_asked_for() -> None:
    model, x = TinyNet(), images(30)
    labels = said(model, x)
    with torch.no_grad():
        goal = model(x).topk(3, dim=1).indices[:, 2]
    found = run(model, PGD(steps=30, loss="ce"), Linf(0.3), x, labels, goal=goal)
    assert 5 < (~found.robust).sum() < 30
    assert torch.equal(said(model, found.adversarial) == goal, ~found.robust)
    assert torch.equal(found.predictions, torch.where(found.robust, labels, goal))


def test_progress_reports_every_example_once() -> None:
    model, x = TinyNet(), images(30)
    labels = said(model, x)
    seen: list[int] = []
    last: list[AttackProgress] = []

    def listen(progress: AttackProgress, outcomes: Outcomes) -> None:
        seen.extend(progress.settled)
        last.append(progress)
        assert not outcomes.robust.all() or progress.robust == progress.done

    found = run(model, PGD(steps=4, restarts=3), Linf(0.05), x, labels, batch_size=8, progress=listen)
    assert sorted(seen) == list(range(30))
    assert last[-1].done == last[-1].total == 30
    assert last[-1].robust == found.robust.sum()


def test_bytes_are_images_too() -> None:
    model = TinyNet()
    pixels = (images(10) * 255).round().to(torch.uint8)
    labels = said(model, pixels.double() / 255)
    as_bytes = run(model, PGD(steps=3), Linf(0.03), pixels, labels)
    as_floats = run(model, PGD(steps=3), Linf(0.03), pixels.double() / 255, labels)
    assert torch.equal(as_bytes.adversarial, as_floats.adversarial)


def test_no_examples_is_fine() -> None:
    empty = torch.empty(0, *SHAPE, dtype=torch.float64)
    found = run(TinyNet(), PGD(), Linf(0.1), empty, torch.empty(0, dtype=torch.int64))
    assert len(found.robust) == len(found.predictions) == 0


def test_what_cannot_be_attacked_is_refused() -> None:
    model, x = TinyNet(), images(4)
    labels = said(model, x)
    with pytest.raises(UserError, match="got 4 images and 3 labels"):
        run(model, PGD(), Linf(0.1), x, labels[:3])
    with pytest.raises(UserError, match=r"pixels from .* to .*, expected \[0, 1\]"):
        run(model, PGD(), Linf(0.1), x * 255, labels)
    with pytest.raises(UserError, match=r"labels: got torch\.float32"):
        run(model, PGD(), Linf(0.1), x, labels.float())
    with pytest.raises(UserError, match="batch_size: got 0"):
        run(model, PGD(), Linf(0.1), x, labels, batch_size=0)


@dataclass(frozen=True)
class Guess:
    """A gradient-free attack: random points, to show that the engine needs no gradient."""

    budget: int = 5
    label: str = "guess"
    stays_inside: bool = True
    starts_at_image: bool = False

    def entries(self, classes: int) -> int:
        return 1

    def start(self, examples: Examples, threat: Threat) -> GuessState:
        return GuessState(examples, threat.random_start(examples.x, examples.keys("g")), 0 * examples.labels)

    def query(self, state: GuessState) -> Tensor:
        return state.points

    def wants_gradient(self, state: GuessState) -> Tensor:
        return torch.zeros_like(state.step, dtype=torch.bool)

    def score(self, logits: Tensor, state: GuessState) -> Tensor:
        return -logits.gather(1, state.examples.labels[:, None])[:, 0]

    def update(self, state: GuessState, answer: Answer, threat: Threat) -> GuessState:
        assert answer.gradient is None
        return replace(state, step=state.step + 1)

    def exhausted(self, state: GuessState) -> Tensor:
        return state.step >= self.budget


@dataclass(frozen=True)
class GuessState:
    examples: Examples
    points: Tensor
    step: Tensor


def test_attacks_without_gradients_compute_none() -> None:
    model, x = TinyNet(), images(20)
    labels = said(model, x)
    attack: Attack[GuessState] = Guess()
    counting = Counting(model)
    found = run(counting, attack, Linf(0.001), x, labels, batch_size=8)
    assert counting.backward_samples == 0 and found.backward.sum() == 0
    assert (found.forward == 6).all()


class Shelf(nn.Module):
    """Says class k where the pixels are nearest to k / 10."""

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(6, dtype=x.dtype) / 10
        return -(x.flatten(1).mean(dim=1, keepdim=True) - places).square()


@dataclass(frozen=True)
class Scripted(Guess):
    """Takes each entry to the classes that were written down for it."""

    script: tuple[tuple[int, ...], ...] = ()
    budget: int = 3

    def entries(self, classes: int) -> int:
        return len(self.script)

    def query(self, state: GuessState) -> Tensor:
        jobs = zip(state.examples.entry.tolist(), state.step.tolist(), strict=True)
        classes = [self.script[entry][step] for entry, step in jobs]
        return (torch.tensor(classes) / 10)[:, None, None, None].expand(-1, *SHAPE)


@pytest.mark.parametrize(
    "script, expected",
    [
        (((0, 0, 0), (1, 0, 0), (2, 0, 0)), 1),  # two entries succeed in one batch
        (((0, 0, 0), (0, 0, 1), (2, 0, 0)), 1),  # a lower entry succeeds later
        (((0, 0, 0), (0, 0, 0), (0, 3, 0), (0, 4, 0)), 3),
        (((0, 0, 0), (0, 0, 0)), 0),
        (((0, 5, 0), (1, 1, 1)), 5),
    ],
)
@pytest.mark.parametrize("batch_size", [1, 16])
def test_the_prediction_is_that_of_the_lowest_entry_that_succeeds(
    script: tuple[tuple[int, ...], ...], expected: int, batch_size: int
) -> None:
    x, labels = torch.zeros(3, *SHAPE), torch.zeros(3, dtype=torch.int64)
    found = run(Shelf(), Scripted(script=script), Linf(0.6), x, labels, batch_size=batch_size)
    assert found.predictions.tolist() == [expected] * 3
    assert torch.equal(said(Shelf(), found.adversarial), found.predictions)


def test_a_goal_beyond_the_classes_is_refused() -> None:
    model, x = TinyNet(), images(3)
    labels = said(model, x)
    with pytest.raises(UserError, match=r"^goal: got 5, expected 0 to 4 for 5 classes, or -1 for none$"):
        run(model, PGD(steps=1), Linf(0.1), x, labels, goal=torch.full_like(labels, 5))


class Rounded(nn.Module):
    """A faster copy that does not agree everywhere: it takes one class for better than it is."""

    def __init__(self, model: nn.Module, bias: float) -> None:
        super().__init__()
        self.model, self.bias = model, bias

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits + self.bias * torch.arange(logits.shape[1])


def test_a_success_on_a_copy_counts_only_where_the_model_itself_is_fooled() -> None:
    model, x = TinyNet(), images(40)
    labels, copy = said(model, x), Rounded(TinyNet(), 0.02)
    alone = run(copy, PGD(steps=6), Linf(0.03), x, labels)
    claimed = ~alone.robust
    assert (said(model, alone.adversarial)[claimed] == labels[claimed]).any(), "the copy misleads"
    found = run(copy, PGD(steps=6), Linf(0.03), x, labels, judge=model)
    assert found.correct.all()
    assert torch.equal(said(model, found.adversarial) == labels, found.robust)
    assert torch.equal(said(model, found.adversarial)[~found.robust], found.predictions[~found.robust])


def test_a_judge_costs_one_prediction_for_each_success() -> None:
    model, x = TinyNet(), images(40)
    labels, judge = said(model, x), Counting(TinyNet())
    alone = run(model, PGD(steps=6), Linf(0.05), x, labels, clean_logits=model(x).detach())
    found = run(model, PGD(steps=6), Linf(0.05), x, labels, clean_logits=model(x).detach(), judge=judge)
    fooled = ~alone.robust
    assert 0 < int(fooled.sum()) < 40
    assert judge.forward_samples == int(fooled.sum()) and judge.backward_samples == 0
    assert torch.equal(found.forward, alone.forward + fooled)
    assert torch.equal(found.robust, alone.robust)
