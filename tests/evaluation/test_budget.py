from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from soar.attacks import Planned, Square, run
from soar.errors import UserError
from soar.evaluation import Assessment, evaluate
from soar.evaluation import budget as module
from soar.evaluation.budget import parse_duration
from soar.evaluation.protocol import evaluate_target
from soar.evaluation.target import Target
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said
from tests.evaluation.test_protocol import Hidden, small_auto


class Clock:
    """Time that goes on by so many seconds for every image that was attacked."""

    def __init__(self, per_image: float) -> None:
        self.per_image, self.images = per_image, 0

    def monotonic(self) -> float:
        return self.per_image * self.images

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def counted(target: Target, *rest: Any, **options: Any) -> Assessment:
            self.images += len(target)
            return evaluate_target(target, *rest, **options)

        monkeypatch.setattr(module, "evaluate_target", counted)
        monkeypatch.setattr(module, "time", self)


def problem(count: int) -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    x = images(count)
    return TinyNet(), (x, said(TinyNet(), x))


def test_times_are_numbers_of_seconds_or_text() -> None:
    assert [parse_duration(one) for one in ("90s", "1.5h", "2m", 3, "7")] == [90, 5400, 120, 3, 7]
    for wrong in ("", "0", "-1m", "ten", "5 d", 0, "nan", "1e3m"):
        with pytest.raises(UserError, match="expected a time such as 90s, 10m or 1h"):
            parse_duration(wrong)


def test_all_images_are_attacked_if_there_is_time() -> None:
    model, data = problem(150)
    found = evaluate(model, data, Linf(0.02), "fgsm", budget="1h")
    whole = evaluate(model, data, Linf(0.02), "fgsm")
    assert len(found) == 150 and found.worst_case == whole.worst_case
    assert found.protocol == "150 of 150 images, drawn at random, within 1:00 h"


@pytest.mark.parametrize("seconds", [100, 300])
def test_as_many_images_are_drawn_as_the_time_allows(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    Clock(per_image=1).watch(monkeypatch)
    model, data = problem(400)
    found = evaluate(model, data, Linf(0.02), "fgsm", budget=seconds)
    assert 0.6 * seconds < len(found) <= seconds
    assert len(found.index.unique()) == len(found)
    assert abs(float(found.index.double().mean()) - 199.5) < 60, "they come from everywhere"
    whole = evaluate(model, data, Linf(0.02), "fgsm")
    places = {number: place for place, number in enumerate(whole.index.tolist())}
    rows = torch.tensor([places[number] for number in found.index.tolist()])
    assert torch.equal(found.survivors("worst case"), whole.survivors("worst case")[rows])
    low, high = found.interval("worst case")
    assert low < whole.worst_case < high


def test_one_part_is_attacked_however_short_the_time() -> None:
    model, data = problem(100)
    assert len(evaluate(model, data, Linf(0.02), "fgsm", budget=0.001)) == 64


def test_the_first_part_decides_which_attacks_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(per_image=1).watch(monkeypatch)
    x = images(160)
    found = evaluate(Hidden(), (x, said(Hidden(), x)), Linf(0.05), small_auto(), budget=250)
    assert [one.label for one in found.attacks] == ["Adaptive", "Square-200", "Square-20"]
    assert 100 < len(found) <= 160 and found.verdict == "masked"
    assert found.protocol.startswith(f"{len(found)} of 160 images, drawn at random, within 4:10 min; went on")


def test_attacks_for_other_conditions_may_share_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(per_image=1).watch(monkeypatch)
    x = images(160)
    other = Planned(Square(queries=20), survivors_only=True, samples=2, condition="random")
    plan = [*(one for one in small_auto() if one.condition != "random"), other]
    found = evaluate(Hidden(), (x, said(Hidden(), x)), Linf(0.05), plan, budget=250)
    assert [(one.label, one.samples) for one in found.attacks[2:]] == [("Square-20", 1)]


def test_an_interrupted_evaluation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = problem(100)
    journal = tmp_path / "journal.jsonl"
    first = evaluate(model, data, Linf(0.02), "pgd:steps=3", budget="1h", journal=journal)
    attacked: list[int] = []

    def counted(model: nn.Module, *rest: Any, **options: Any) -> Any:
        attacked.append(len(rest[2]))
        return run(model, *rest, **options)

    monkeypatch.setattr("soar.evaluation.target.run", counted)
    again = evaluate(model, data, Linf(0.02), "pgd:steps=3", budget="1h", journal=journal)
    assert sum(attacked) == 0, "everything was known"
    assert torch.equal(first.survivors("worst case"), again.survivors("worst case"))


def test_a_budget_is_for_one_radius() -> None:
    model, data = problem(4)
    with pytest.raises(UserError, match="cannot be combined with several threats"):
        evaluate(model, data, [Linf(0.1), Linf(0.2)], "fgsm", budget="1m")  # type: ignore[call-overload]
