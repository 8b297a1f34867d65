from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import PGD, Planned, Square
from soar.evaluation import Assessment, attack, evaluate
from soar.evaluation.suites import resolve
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said

CHEAP = ["Adaptive", "Square-200"]


class Hidden(nn.Module):
    """A network behind rounded pixels, through which no gradient flows."""

    def __init__(self) -> None:
        super().__init__()
        self.network = TinyNet()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network((20 * x).round() / 20)
        return logits


class Noisy(nn.Module):
    """A network that sees other noise at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.network = TinyNet()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x + 0.02 * torch.randn_like(x))
        return logits


def labels_of(found: Assessment) -> list[str]:
    return [one.label for one in found.attacks]


def small_auto(condition_only: bool = False) -> list[Planned]:
    """The suite `auto` with what follows cut to a few queries, so that it takes seconds."""
    cheap = [one for one in resolve("auto") if one.condition == "always"]
    follow = [
        Planned(Square(queries=20), survivors_only=True, condition="unsound"),
        Planned(PGD(steps=2), survivors_only=True, samples=2, condition="random"),
    ]
    return follow if condition_only else [*cheap, *follow]


def test_auto_is_fast_then_a_short_square_and_then_all_of_standard_or_rand() -> None:
    plan = resolve("auto")
    assert [one.attack.label for one in plan if one.condition == "always"] == CHEAP
    for suite, condition in (("standard", "unsound"), ("rand", "random")):
        follow = [replace(one, condition="always") for one in plan if one.condition == condition]
        assert follow == resolve(suite)
    assert [one.attack.label for one in resolve("fast")] == ["Adaptive"]


def test_a_sound_model_is_judged_by_the_cheap_attacks() -> None:
    x = images(40)
    found = evaluate(TinyNet(), (x, said(TinyNet(), x)), Linf(0.02))
    assert 0 < found.worst_case < 1 and found.verdict == "sound"
    assert labels_of(found) == CHEAP
    assert found.protocol.startswith("stopped after Adaptive and Square-200: no check")
    assert found.protocol in str(found).replace("\n", " ")


def test_a_model_that_hides_its_gradients_gets_the_rest_of_the_protocol() -> None:
    x = images(40)
    found = evaluate(Hidden(), (x, said(Hidden(), x)), Linf(0.05), small_auto())
    assert labels_of(found) == [*CHEAP, "Square-20"]
    assert found.protocol.startswith("went on from Adaptive and Square-200 to Square-20, because the model")
    assert "masked" in found.protocol


@pytest.mark.filterwarnings("ignore")
def test_a_randomized_model_is_attacked_through_the_mean_of_its_outputs() -> None:
    x = images(40)
    found = evaluate(Noisy(), (x, said(TinyNet(), x)), Linf(0.02), small_auto())
    assert labels_of(found) == [*CHEAP, "PGD-2"]
    assert found.attacks[-1].samples == 2 and "randomized" in found.protocol


def test_nothing_follows_where_no_image_is_left() -> None:
    x = images(20)
    found = evaluate(Hidden(), (x, said(Hidden(), x)), Linf(1), small_auto())
    assert found.worst_case == 0 and found.protocol.endswith("no image is left")


def test_an_interrupted_evaluation_goes_on_through_both_parts(tmp_path: Path) -> None:
    x = images(30)
    labels, journal = said(Hidden(), x), tmp_path / "journal.jsonl"
    whole = evaluate(Hidden(), (x, labels), Linf(0.05), small_auto(), journal=journal)
    (file,) = tmp_path.iterdir()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: len(lines) // 2]))
    again = evaluate(Hidden(), (x, labels), Linf(0.05), small_auto(), journal=journal)
    assert again.protocol == whole.protocol
    for one, other in zip(whole.attacks, again.attacks, strict=True):
        assert torch.equal(one.robust, other.robust) and torch.equal(one.forward, other.forward)


def test_the_same_attack_may_follow_under_different_conditions_only() -> None:
    resolve([*small_auto(condition_only=True), Planned(Square(queries=20), condition="random")])
    with pytest.raises(Exception, match="got 'Square-20' more than once"):
        resolve([*small_auto(), Planned(Square(queries=20))])


def test_attacking_a_batch_runs_only_what_needs_no_checks() -> None:
    x = images(20)
    labels = said(Hidden(), x)
    found = attack(Hidden(), x, labels, Linf(0.05), small_auto())
    always = [one for one in small_auto() if one.condition == "always"]
    again = attack(Hidden(), x, labels, Linf(0.05), always)
    assert torch.equal(found.forward, again.forward) and torch.equal(found.success, again.success)
