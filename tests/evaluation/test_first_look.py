from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import PGD
from soar.evaluation import Assessment, AttackResult
from soar.evaluation.assessment import Note
from soar.evaluation.diagnosis import CheckResult, Diagnosis
from soar.evaluation.first_look import MOST_EXAMPLES, first_look, one_line
from soar.evaluation.protocol import evaluate_target
from soar.evaluation.suites import Wanted
from soar.evaluation.target import Target
from soar.threat import L2, Linf
from tests.evaluation.checks.made import Behind, Linear, images, rounded, shared

COUNT = 200


def assessed(model: nn.Module, attacks: Wanted = "quick", norm: str = "linf") -> tuple[Diagnosis, Assessment]:
    target = shared(model, norm=norm).target
    found = evaluate_target(target, attacks, check=False)
    return first_look(target, found), found


def result(label: str, leaves: int, **options: Any) -> AttackResult:
    """Make an attack that leaves the first so many of all examples."""
    name = options.pop("name", "PGD")
    zeros = torch.zeros(COUNT, dtype=torch.int64)
    return AttackResult(
        label=label,
        name=name,
        parameters={"steps": 20, **options.pop("parameters", {})},
        robust=torch.arange(COUNT) < leaves,
        forward=zeros,
        backward=zeros,
        **options,
    )


def assessment(*attacks: AttackResult, notes: tuple[Note, ...] = ()) -> Assessment:
    return Assessment(
        model="made",
        data="numbers",
        threat=Linf("8/255"),
        seed=3,
        index=torch.arange(COUNT),
        labels=torch.zeros(COUNT, dtype=torch.int64),
        correct=torch.ones(COUNT, dtype=torch.bool),
        attacks=attacks,
        notes=notes,
    )


def target(model: nn.Module, x: Tensor, labels: Tensor | None = None, **options: Any) -> Target:
    """Put a model before images; without labels it classifies all of them correctly."""
    labels = model(x).argmax(dim=1) if labels is None else labels
    return Target(model=model, data=(x, labels), threat=Linf("8/255"), seed=3, **options)


def looked(*attacks: AttackResult, notes: tuple[Note, ...] = ()) -> dict[str, CheckResult]:
    """Look at made results of a linear model; give the evidence by its check."""
    found = first_look(target(Linear(), images(20)), assessment(*attacks, notes=notes))
    return {one.check: one for one in found.checks}


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("attacks", ["quick", "fgsm", "square:queries=20"])
def test_a_linear_model_is_sound(norm: str, attacks: str) -> None:
    found, _ = assessed(Linear(), attacks, norm)
    assert found.verdict == "sound" and one_line(found) == "" and not found.is_complete
    assert isinstance(found.threat, Linf if norm == "linf" else L2)


def test_a_saturated_model_is_masked_and_both_checks_say_so() -> None:
    found, _ = assessed(Linear(factor=1e4))
    assert found.verdict == "masked"
    assert {one.check for one in found.against} == {"gradients", "losses", "worst case"}
    line = one_line(found)
    assert line.startswith("masked: ") and "\n" not in line
    assert line.endswith("; run all checks: soar.diagnose(model, data, threat)")
    assert one_line(found, "runs/loud").endswith("; run all checks: soar diagnose runs/loud")


@pytest.mark.parametrize("attacks", ["quick", "pgd", "fast"])
def test_large_logits_alone_raise_no_alarm(attacks: str) -> None:
    """PGD takes the sign of what is left of the gradient, and all attacks agree."""
    found, all_found = assessed(Linear(factor=50.0, classes=2), attacks)
    gradients = next(one for one in found.checks if one.check == "gradients")
    assert gradients.numbers["vanishing"] > 0.5 and all_found.worst_case == 0.5  # type: ignore[operator]
    # Where one loss alone was climbed, it is not known.
    assert found.verdict == ("sound" if attacks == "quick" else "inconclusive")
    assert one_line(found) == "" or "PGD on both losses would show whether that matters" in one_line(found)


def test_without_gradients_it_takes_an_attack_without_them_to_call_a_model_masked() -> None:
    found, _ = assessed(Behind(rounded))
    assert one_line(found) == (
        "inconclusive: no loss has a gradient on 100.0% of the images, and no attack without them was run:"
        " gradient attacks say nothing here; run all checks: soar.diagnose(model, data, threat)"
    )
    found, _ = assessed(Behind(rounded), ["quick", "square:queries=100"])
    assert found.verdict == "masked" and "the model hides it" in found.summary


def reversed_gradient(x: Tensor) -> Tensor:
    return 2 * x.detach() - x


def staircase(x: Tensor) -> Tensor:
    """Narrow steps whose treads are steep, and fall back at the next one."""
    floor = (1000 * x).round() / 1000
    return floor + 100 * (x - floor)


@pytest.mark.parametrize("change", [reversed_gradient, staircase])
def test_one_step_along_the_gradient_shows_where_it_leads_astray(change: Callable[[Tensor], Tensor]) -> None:
    found, _ = assessed(Behind(change), "fgsm")
    (against,) = found.against
    assert against.check == "taylor" and against.numbers["broken"] > 0.5  # type: ignore[operator]
    assert "does not raise the loss as predicted" in one_line(found)


def test_it_names_what_was_assessed() -> None:
    found = first_look(target(Linear(), images(20)), assessment())
    assert (found.model, found.data, found.examples, found.seed) == ("made", "numbers", COUNT, 3)
    assert [one.check for one in found.checks] == ["consistency", "gradients", "taylor"]


CE, MARGIN = {"loss": "ce"}, {"loss": "margin"}


@pytest.mark.parametrize(
    ("ce", "margin", "finding"),
    [
        (100, 98, "sound"),
        (100, 100, "sound"),
        (98, 100, "sound"),
        (100, 82, "suspicious"),
        (100, 30, "masked"),
    ],
)
def test_losses_are_compared_at_the_same_budget(ce: int, margin: int, finding: str) -> None:
    pair = result("PGD-20", ce, parameters=CE), result("PGD-20 margin", margin, parameters=MARGIN)
    for attacks in (pair, pair[::-1]):
        found = looked(*attacks)["losses"]
        assert found.finding == finding
        assert found.numbers["difference"] == pytest.approx((ce - margin) / COUNT)
    assert f"PGD-20 margin leaves {margin / 2:.1f}% where PGD-20 leaves {ce / 2:.1f}%" in found.sentence


@pytest.mark.parametrize(
    "other",
    [
        result("PGD-40 margin", 10, parameters={**MARGIN, "steps": 40}),
        result("APGD margin", 10, parameters=MARGIN, name="APGD"),
        result("PGD-20 margin x5", 10, parameters={**MARGIN, "restarts": 5}),
        result("PGD-20 margin", 10, parameters=MARGIN, samples=20),
        result("PGD-20 again", 10, parameters=CE),
        result("PGD-20 custom", 10, parameters={"loss": "mine"}),
        result("PGD-20 margin T3", 10, parameters={**MARGIN, "targets": 3}),
    ],
    ids=lambda one: one.label,
)
def test_different_budgets_are_not_compared(other: AttackResult) -> None:
    assert "losses" not in looked(result("PGD-20", 100, parameters=CE), other)


def test_what_was_given_to_survivors_is_compared_with_nothing() -> None:
    suite = [
        result("Adaptive", 60, name="Adaptive"),
        result("APGD", 60, name="APGD", parameters={**CE, "targets": 0}, survivors_only=True),
        result("APGD-T", 36, name="APGD", parameters={"loss": "dlr", "targets": 9}, survivors_only=True),
    ]
    assert {"losses", "worst case"}.isdisjoint(looked(*suite))


def test_autoattacks_first_and_second_are_compared() -> None:
    suite = [
        result("APGD", 110, name="APGD", parameters={**CE, "targets": 0}, survivors_only=True),
        result("APGD-T", 36, name="APGD", parameters={"loss": "dlr", "targets": 9}, survivors_only=True),
    ]
    assert looked(*suite)["losses"].finding == "masked"


@pytest.mark.parametrize(
    ("square", "finding"), [(100, "sound"), (120, "sound"), (99, "sound"), (94, "suspicious"), (70, "masked")]
)
def test_a_black_box_should_find_nothing_more(square: int, finding: str) -> None:
    attacks = [
        result("PGD-20", 100, parameters=CE),
        result("PGD-20 margin", 100, parameters=MARGIN),
        result("Square", square, name="Square"),
    ]
    found = looked(*attacks)["black box"]
    assert found.finding == finding
    assert found.numbers["Square"] == pytest.approx(max(0, 100 - square) / COUNT)


@pytest.mark.parametrize("gradients, is_compared", [(0, True), (1, False)])
def test_an_attack_of_another_library_is_a_black_box_where_it_took_no_gradient(
    gradients: int, is_compared: bool
) -> None:
    attacks = [result("PGD-20", 100, parameters=CE), result("PGD-20 margin", 100, parameters=MARGIN)]
    asked = torch.ones(COUNT, dtype=torch.int64)
    theirs = replace(
        result("HopSkipJump", 70, name="ExternalAttack"), forward=9 * asked, backward=gradients * asked
    )
    found = looked(*attacks, theirs)
    assert ("black box" in found) == is_compared
    assert not is_compared or found["black box"].finding == "masked"


def test_after_cross_entropy_alone_a_black_box_may_find_as_much_as_a_margin_attack() -> None:
    attacks = result("PGD-20", 100, parameters=CE), result("Square", 94, name="Square")
    assert looked(*attacks)["black box"].finding == "sound"
    attacks = result("PGD-20", 100, parameters=CE), result("Square", 50, name="Square")
    found = looked(*attacks)["black box"]
    assert found.finding == "masked" and "cross-entropy" in found.rule


@pytest.mark.parametrize(
    "white",
    [
        [],
        [result("FGSM", 100, name="FGSM", parameters={"steps": 1})],
        [result("PGD-5", 100, parameters={"steps": 5})],
    ],
    ids=["none", "one step", "five steps"],
)
def test_a_black_box_beats_short_attacks_on_any_network(white: list[AttackResult]) -> None:
    assert "black box" not in looked(*white, result("Square", 10, name="Square"))


def test_everything_is_set_against_the_attack_on_the_cross_entropy() -> None:
    """No two of these can be compared by their loss, and Square adds nothing to them."""
    attacks = [
        result("PGD-20", 100, parameters=CE),
        result("Adaptive", 60, name="Adaptive"),
        result("Square", 60, name="Square"),
    ]
    found = looked(*attacks)
    assert found["black box"].finding == "sound" and "losses" not in found
    assert found["worst case"].finding == "masked" and found["worst case"].numbers["cause"] == "search"
    random = Note("random", "model: got outputs that differ by up to 1 between two passes")
    assert "worst case" not in looked(*attacks, notes=(random,)), "luck is not counted"
    assert "worst case" not in looked(*attacks[1:])
    longer = result("PGD-100", 70, parameters={**CE, "steps": 100})
    numbers = looked(longer, *attacks)["worst case"].numbers
    assert numbers["PGD-20"] == 0.5 and "PGD-100" not in numbers


def test_notes_become_evidence() -> None:
    note = Note("random", "model: got answers that differ by up to 1 when asked twice")
    assert looked(notes=(note,))["consistency"].finding == "suspicious"
    assert looked(notes=(Note("other", "the model is randomized"),))["consistency"].finding == "sound"


class Counting(nn.Module):
    """A double-precision model that counts the images it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(Linear(), nn.BatchNorm1d(3), nn.Dropout()).double()
        self.asked = 0

    def forward(self, x: Tensor) -> Tensor:
        self.asked += len(x)
        logits: Tensor = self.body(x)
        return logits


def test_it_costs_six_passes_over_a_few_images_and_leaves_the_model_as_it_was() -> None:
    model, x = Counting(), images(300)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    numbers = torch.get_rng_state()
    labels = Linear()(x).argmax(dim=1)
    found = first_look(target(model, x, labels, batch_size=50), assessment())
    assert model.asked == 6 * MOST_EXAMPLES
    assert {one.check: one for one in found.checks}["gradients"].numbers["precision"] == "float64"
    assert model.training and all(one.requires_grad and one.grad is None for one in model.parameters())
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert torch.equal(numbers, torch.get_rng_state())


def test_bytes_are_images_too() -> None:
    model, x = Linear(), (255 * images(20)).to(torch.uint8)
    found = first_look(target(model, x, model(x / 255).argmax(dim=1)), assessment())
    assert {one.check: one for one in found.checks}["gradients"].numbers["examples"] == 20


class Refusing(nn.Module):
    """A model that cannot be asked for gradients."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("no gradients\nhere")
        return x.flatten(1)


@pytest.mark.parametrize(
    ("model", "x", "labels", "reason"),
    [
        (Refusing(), torch.tensor([[[[0.9, 0.1]]]]), torch.tensor([0]), "RuntimeError: no gradients)"),
        (Linear(), images(4), Linear()(images(4)).argmin(dim=1), "no clean image"),
        (Linear(), torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), "RuntimeError"),
    ],
    ids=["refusing", "all wrong", "other shape"],
)
def test_it_never_raises(model: nn.Module, x: Tensor, labels: Tensor, reason: str) -> None:
    found = first_look(target(model, x, labels), assessment())
    gradients = {one.check: one for one in found.checks}["gradients"]
    assert found.verdict == "inconclusive" and reason in gradients.sentence and "\n" not in gradients.sentence


def test_no_attack_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PGD, "start", lambda *_: pytest.fail("an attack was run"))
    found = looked(result("PGD-20", 100, parameters=CE))
    assert found["gradients"].numbers["examples"] == 20, "the gradients are measured nevertheless"


def test_one_line_begins_small_but_keeps_the_names_of_attacks() -> None:
    attacks = result("PGD-20", 100, parameters=CE), result("PGD-20 margin", 30, parameters=MARGIN)
    found = first_look(target(Linear(), images(20)), assessment(*attacks))
    assert one_line(found) == (
        "masked: PGD-20 margin leaves 15.0% where PGD-20 leaves 50.0%, so the cross-entropy hides a way"
        " that the network has; run all checks: soar.diagnose(model, data, threat)"
    )
    whole = one_line(replace(found, is_complete=True), "runs/a")
    assert whole.endswith("which does not saturate: soar evaluate runs/a --attacks fast")
    close = result("PGD-20", 100, parameters=CE), result("PGD-20 margin", 90, parameters=MARGIN)
    found = first_look(target(Linear(), images(20)), assessment(*close))
    assert found.verdict == "sound" and found.is_at_threshold and one_line(found) == ""
    assert found.summary.endswith("It is at the threshold: more images would decide.")
