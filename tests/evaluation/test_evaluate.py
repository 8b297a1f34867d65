from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import FGSM, PGD, run
from soar.data import Split
from soar.distributed import World
from soar.errors import UserError
from soar.evaluation import Assessment, diagnose, evaluate
from soar.evaluation.diagnosis import Diagnosis
from soar.evaluation.journal import fingerprint
from soar.evaluation.suites import resolve
from soar.evaluation.target import EOTModel, Target
from soar.prediction import predict
from soar.threat import L2, Linf
from tests.attacks.problems import Linear, TinyNet, images, said
from tests.evaluation.test_assessment import diagnosis

ATTACKS = [FGSM(), PGD(steps=4), PGD(steps=4, loss="margin", restarts=2)]
# The package shows the function under the name of the module.
MODULE = import_module("soar.evaluation.protocol")


def problem(count: int = 40) -> tuple[TinyNet, Tensor, Tensor]:
    model, x = TinyNet(), images(count)
    labels = said(model, x)
    labels[::9] = (labels[::9] + 1) % 5
    return model, x, labels


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether both are known and equal."""
    return one is not None and other is not None and torch.equal(one, other)


def test_linear_models_get_their_exact_accuracy() -> None:
    model, x = Linear(classes=2), images(60)
    labels = said(model, x)
    distances = model.distances(x, labels, dual=1)
    eps = distances.sort().values[20:22].mean().item()
    found = evaluate(model, (x, labels), Linf(eps), "fgsm")
    assert found.accuracy("FGSM") == (distances > eps).double().mean().item()


def test_an_assessment_holds_what_the_engine_found() -> None:
    model, x, labels = problem()
    found = evaluate(model, (x, labels), Linf(0.05), ATTACKS, seed=3, name="tiny", data_name="made up")
    assert found.model == "tiny" and found.data == "made up" and found.seed == 3
    assert torch.equal(found.correct, said(model, x) == labels) and same(
        found.clean_predictions, said(model, x)
    )
    with torch.no_grad():
        logits = model(x)
    for attack, result in zip(ATTACKS, found.attacks, strict=True):
        # The clean prediction is made once for all attacks.
        alone = run(model, attack, Linf(0.05), x, labels, seed=3, clean_logits=logits, judge=model)
        assert torch.equal(result.robust, alone.robust)
        assert torch.equal(result.forward, alone.forward) and torch.equal(result.backward, alone.backward)
        assert same(result.predictions, alone.predictions) and same(
            found.predictions(result.label), alone.predictions
        )
    assert found.attacks[2].name == "PGD"
    assert found.attacks[2].parameters["loss"] == "margin" and found.attacks[2].parameters["restarts"] == 2
    assert found.environment["torch"] == torch.__version__


def test_splits_bring_their_own_identities() -> None:
    model, x, _ = problem()
    pixels = (x * 255).round().to(torch.uint8)
    labels = said(model, pixels.double() / 255)
    indices = torch.arange(100, 140)
    split = Split(pixels, labels, indices)
    found = evaluate(model, split, L2(0.1), [PGD(steps=2)])
    assert torch.equal(found.index, indices)
    part = evaluate(model, split.subset(torch.arange(20, 30)), L2(0.1), [PGD(steps=2)])
    assert torch.equal(part.attacks[0].robust, found.attacks[0].robust[20:30])
    assert found.attacks[0].predictions is not None and same(
        part.attacks[0].predictions, found.attacks[0].predictions[20:30]
    )


class Fragile(nn.Module):
    """Fails after so many calls, as a machine that is switched off."""

    def __init__(self, model: nn.Module, calls: int) -> None:
        super().__init__()
        self.model, self.calls = model, calls

    def forward(self, x: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        logits: Tensor = self.model(x)
        return logits


def test_an_interrupted_evaluation_goes_on_where_it_was(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "assessment.partial.jsonl"
    task = (x, labels), Linf(0.05), ATTACKS
    whole = evaluate(Fragile(model, 10**9), *task, batch_size=8, fast=False)
    for calls in (8, 20, 30, 40):
        with pytest.raises(KeyboardInterrupt):
            evaluate(Fragile(model, calls), *task, batch_size=8, journal=journal, fast=False)
    counting = Fragile(model, 10**9)
    resumed = evaluate(counting, *task, batch_size=8, journal=journal, fast=False)
    for one, other in zip(resumed.attacks, whole.attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and same(one.predictions, other.predictions)
        assert torch.equal(one.forward, other.forward) or one.parameters["restarts"] > 1
    fresh = Fragile(model, 10**9)
    evaluate(fresh, *task, batch_size=8, fast=False)
    assert counting.calls > fresh.calls, "what was known is not computed again"


def test_journals_of_other_weights_attacks_or_seeds_are_not_used(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "j.jsonl"
    evaluate(model, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    other = TinyNet(seed=1)
    expected = evaluate(other, (x, labels), Linf(0.05), [PGD(steps=4)])
    found = evaluate(other, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    assert torch.equal(found.attacks[0].robust, expected.attacks[0].robust)
    weaker = evaluate(model, (x, labels), Linf("1/100000"), [PGD(steps=4)], journal=journal)
    assert weaker.worst_case == weaker.accuracy("clean")


def test_fingerprints_see_weights_and_description() -> None:
    one, other = TinyNet(seed=0), TinyNet(seed=1)
    x, y = torch.rand(2, 1, 2, 2), torch.tensor([0, 1])
    prints = {fingerprint(one, "a", x, y), fingerprint(one, "b", x, y), fingerprint(other, "a", x, y)}
    prints |= {fingerprint(one, "a", x + 1, y), fingerprint(one, "a", x, 1 - y)}
    assert len(prints) == 5
    assert fingerprint(one, "a", x, y) == fingerprint(TinyNet(seed=0), "a", x.clone(), y)


def test_data_that_cannot_be_evaluated_is_refused() -> None:
    model, x, labels = problem()
    with pytest.raises(UserError, match="expected as many of each"):
        evaluate(model, (x, labels[:-1]), Linf(0.1))
    with pytest.raises(UserError, match="unknown attack"):
        evaluate(model, (x, labels), Linf(0.1), "quik")
    with pytest.raises(UserError, match="data: got no images, expected at least one"):
        evaluate(model, (x[:0], labels[:0]), Linf(0.1))
    with pytest.raises(UserError, match="labels: got 5 for image 3 "):
        evaluate(model, (x, labels.index_fill(0, torch.tensor([3]), 5)), Linf(0.1))
    with pytest.raises(UserError, match=r"images: got pixels from .* to 1\.\d+, expected \[0, 1\]"):
        evaluate(model, (2 * x, labels), Linf(0.1))


def test_a_batch_of_none_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    model, x, labels = problem()
    text = r"batch_size: got 0, expected at least 1 \(flag --batch-size\)"
    for look in (evaluate, diagnose):
        with pytest.raises(UserError, match=text):
            look(model, (x, labels), Linf(0.1), batch_size=0, journal=tmp_path / "journal.jsonl")
    with pytest.raises(UserError, match=text):
        predict(model, x, 0)
    assert list(tmp_path.iterdir()) == []


class Spoilt(nn.Module):
    """A sound network whose answers are changed by a function."""

    def __init__(self, change: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.model, self.change = TinyNet(), change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.model(x))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda z: z[:, :1], "model: got logits of 1 class, expected at least 2"),
        (lambda z: z * torch.nan, "NaN or infinite for 40 of 40 images"),
        (lambda z: z[:, 0], r"model: got outputs of shape \(40,\), expected logits"),
        (lambda z: {"out": z}, "model: got a dict of out as output, expected a tensor of logits"),
    ],
)
def test_answers_that_cannot_be_evaluated_are_refused(change: Callable[[Tensor], Any], message: str) -> None:
    _, x, labels = problem()
    with pytest.raises(UserError, match=message):
        evaluate(Spoilt(change), (x, labels), Linf(0.1))


def test_odd_answers_are_noted() -> None:
    _, x, labels = problem()
    found = evaluate(Spoilt(lambda z: z.softmax(dim=1)), (x, labels), Linf(0.1), "fgsm")
    assert "remove the softmax" in found.notes[0].message
    random = Spoilt(lambda z: z + torch.randn_like(z))
    assert 'use attacks="rand"' in evaluate(random, (x, labels), Linf(0.1), "fgsm").notes[0].message
    assert evaluate(TinyNet(), (x, labels), Linf(0.1), "fgsm").notes == ()


def test_a_model_that_is_always_wrong_costs_no_attack() -> None:
    model, x, _ = problem()
    found = evaluate(model, (x, (said(model, x) + 1) % 5), Linf(0.1), "standard:steps=3,queries=5")
    assert found.worst_case == found.accuracy("clean") == 0
    assert found.passes("worst case") == (1, 0)


def test_later_attacks_of_the_standard_suite_see_only_survivors() -> None:
    model, x, labels = problem()
    text, threat = "standard:steps=5,targets=2,queries=30", Linf("0.04")
    found = evaluate(model, (x, labels), threat, text, seed=2)
    left, ends = found.correct, said(model, x)
    with torch.no_grad():
        logits = model(x)
    for one, result in zip(resolve(text), found.attacks, strict=True):
        assert result.survivors_only
        assert not result.forward[~left].any() and result.forward[left].all()
        alone = run(model, one.attack, threat, x, labels, seed=2, clean_logits=logits)
        ends = torch.where(left, alone.predictions, ends)
        left = left & alone.robust
        assert torch.equal(result.robust, left) and same(result.predictions, ends)
    assert found.worst_case == left.double().mean()
    assert same(found.predictions("worst case"), ends) and len(ends[~left].unique()) > 1


def test_what_an_earlier_attack_broke_stays_where_it_took_it() -> None:
    model, x, labels = problem()
    suite = "standard:steps=3,targets=2,queries=10"
    found = evaluate(model, (x, labels), Linf("0.05"), [ATTACKS[2], ATTACKS[0], suite])
    strong, weak, first, *_ = found.attacks
    assert bool((weak.robust & ~strong.robust).any()), "the weaker attack leaves some that the other broke"
    assert first.survivors_only and first.predictions is not None and strong.predictions is not None
    assert torch.equal(first.predictions == labels, first.robust)
    assert torch.equal(first.predictions[~strong.robust], strong.predictions[~strong.robust])


def test_long_data_are_attacked_in_parts_with_the_same_outcome() -> None:
    model, x, labels = problem()
    whole = evaluate(model, (x, labels), Linf("0.05"), ATTACKS, batch_size=40)
    parts = evaluate(model, (x, labels), Linf("0.05"), ATTACKS, batch_size=1)
    for one, other in zip(whole.attacks, parts.attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and same(one.predictions, other.predictions)


def test_an_interrupted_suite_goes_on_with_its_survivors(tmp_path: Path) -> None:
    model, x, labels = problem()
    text, threat = "standard:steps=5,targets=2,queries=30", Linf("0.04")
    whole = evaluate(model, (x, labels), threat, text)
    journal = tmp_path / "notes.jsonl"
    evaluate(model, (x, labels), threat, text, journal=journal)
    (written,) = tmp_path.iterdir()
    lines = written.read_text().splitlines()
    written.write_text("\n".join(lines[: 2 * len(lines) // 3]) + "\n")
    again = evaluate(model, (x, labels), threat, text, journal=journal)
    for one, other in zip(whole.attacks, again.attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and torch.equal(one.forward, other.forward)
        assert same(one.predictions, other.predictions)


def test_a_randomized_model_is_attacked_by_the_mean_of_its_answers() -> None:
    _, x, labels = problem()
    noisy = Spoilt(lambda z: z + 0.01 * torch.randn_like(z))
    found = evaluate(noisy, (x, labels), Linf("0.05"), "rand:steps=3,samples=4")
    assert [result.samples for result in found.attacks] == [4, 4]
    attacked = found.correct
    assert (found.attacks[0].forward[attacked] % 4 == 0).all() and found.attacks[0].forward.any()
    torch.manual_seed(0)
    answers = EOTModel(Spoilt(lambda z: z + torch.randn_like(z)), 400)(x)
    torch.testing.assert_close(answers, TinyNet()(x), atol=0.3, rtol=0)


def test_folding_changes_no_outcome_and_can_be_switched_off() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5)
    )
    norm = model[1]
    norm.get_buffer("running_mean").uniform_(-1, 1)
    x = images(30).float()
    labels = said(model.eval(), x)
    seen: list[str] = []
    hook = norm.register_forward_pre_hook(lambda *_: seen.append("norm"))
    kept = evaluate(model, (x, labels), Linf("0.05"), "quick")
    assert seen, "a layer with a hook stays"
    hook.remove()
    for fast in (True, False):
        found = evaluate(model, (x, labels), Linf("0.05"), "quick", fast=fast)
        assert torch.equal(found.survivors("worst case"), kept.survivors("worst case"))


def test_everything_that_is_found_can_be_saved_and_read(tmp_path: Path) -> None:
    model, x, labels = problem()
    for attacks in ("standard:steps=3,targets=2,queries=10", ATTACKS):
        found = evaluate(model, (x, labels), L2(0.2), attacks, class_names=tuple("abcde"))
        found.save(tmp_path / "a.json")
        back = Assessment.load(tmp_path / "a.json")
        assert back.as_dict() == found.as_dict() and back.classes == tuple("abcde")


def test_class_names_must_reach_as_far_as_the_labels() -> None:
    model, x, labels = problem()
    with pytest.raises(UserError, match="class_names: got 3 names, but labels go up to 4"):
        evaluate(model, (x, labels), Linf(0.1), class_names=("a", "b", "c"))


@pytest.mark.parametrize("count, size", [(40, 7), (5, 7)], ids=["even", "some without examples"])
def test_processes_share_the_examples_and_all_know_the_whole(
    monkeypatch: pytest.MonkeyPatch, count: int, size: int
) -> None:
    model, x, labels = problem(count)
    whole = evaluate(model, (x, labels), Linf(0.05), ATTACKS, check=False)
    parts: list[Assessment] = []

    def gather(world: World, part: Assessment) -> list[Assessment]:
        """Let one process after the other run; the last one hears what all found."""
        parts.append(part)
        return list(parts)

    looks: list[int] = []

    def look(_: Target, result: Assessment) -> Diagnosis:
        looks.append(len(result))
        return diagnosis()

    monkeypatch.setattr(MODULE, "first_look", look)
    monkeypatch.setattr(World, "gather", gather)
    monkeypatch.setenv("WORLD_SIZE", str(size))
    for rank in range(size):
        monkeypatch.setenv("RANK", str(rank))
        found = evaluate(model, (x, labels), Linf(0.05), ATTACKS)
    assert sum(map(len, parts)) == count and max(map(len, parts)) < count
    assert looks[-1] == count and found.verdict == "masked"
    assert torch.equal(found.index, whole.index) and same(found.clean_predictions, whole.clean_predictions)
    for one, other in zip(found.attacks, whole.attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and same(one.predictions, other.predictions)


def test_a_first_look_gets_the_model_some_images_and_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, x, labels = problem(150)
    asked: list[tuple[Target, Assessment]] = []

    def look(target: Target, result: Assessment) -> Diagnosis:
        asked.append((target, result))
        return diagnosis("suspicious")

    monkeypatch.setattr(MODULE, "first_look", look)
    found = evaluate(model, (x, labels), Linf(0.05), "fgsm", batch_size=16)
    assert found.verdict == "suspicious"
    ((seen, result),) = asked
    assert seen.model is model and torch.equal(seen.images, x) and torch.equal(seen.labels, labels)
    assert len(result) == 150 and result.verdict is None and seen.batch_size == 16
    assert evaluate(model, (x, labels), Linf(0.05), "fgsm", check=False).diagnosis is None
    assert len(asked) == 1


def test_a_model_is_a_module() -> None:
    x, labels = images(4), torch.zeros(4, dtype=torch.int64)
    for look in (evaluate, diagnose):
        with pytest.raises(UserError, match=r"^model: got a function, expected a torch\.nn\.Module$"):
            look(lambda x: x, (x, labels), Linf(0.1))  # type: ignore[arg-type, call-overload]
    with pytest.raises(UserError, match=r"^labels: got shape \(4, 5\), expected one class for each image$"):
        evaluate(TinyNet(), (x, torch.zeros(4, 5, dtype=torch.int64)), Linf(0.1))


@pytest.mark.parametrize("threat, got", [(0.1, "0.1"), ("linf", "'linf'"), (None, "NoneType")])
def test_a_threat_is_no_number(threat: Any, got: str) -> None:
    x = images(2)
    with pytest.raises(UserError, match=rf'^threat: got {got}, expected such as Linf\("8/255"\)'):
        evaluate(TinyNet(), (x, said(TinyNet(), x)), threat)


@pytest.mark.parametrize(
    "attack, message",
    [
        (PGD, r"got the class PGD, expected an object: PGD\(\.\.\.\)"),
        (3, "got a int, expected an object with label"),
    ],
)
def test_attacks_of_another_make_are_refused(attack: Any, message: str) -> None:
    x = images(2)
    with pytest.raises(UserError, match=message):
        evaluate(TinyNet(), (x, said(TinyNet(), x)), Linf(0.1), attack)
