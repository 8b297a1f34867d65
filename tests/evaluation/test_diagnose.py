from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import soar
from soar.errors import UserError
from soar.evaluation.diagnose import CHECKS
from soar.evaluation.first_look import one_line
from tests.evaluation.checks.made import Behind, Linear, rounded, shared


class ThroughNumpy(Linear):
    """Leaves torch on the way, as JPEG does: no graph and no gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.from_numpy(rounded(x.detach()).numpy()))


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        (Linear(), "sound"),
        (Linear(factor=1e4), "masked"),
        (Behind(rounded), "masked"),
        (ThroughNumpy(), "masked"),
    ],
    ids=["linear", "loud", "rounded", "through numpy"],
)
def test_the_verdict_on_models_whose_answer_is_known(model: nn.Module, verdict: str, norm: str) -> None:
    made = shared(model, norm=norm).target
    found = soar.diagnose(model, made.data, made.threat)
    assert found.verdict == verdict, [one.sentence for one in found.against]
    assert {one.check for one in found.checks} == set(CHECKS)
    assert found.is_complete and found.examples == 80


def test_a_model_that_is_never_right_is_inconclusive() -> None:
    made = shared(Linear(), count=20).target
    x, right = made.images, made.labels
    found = soar.diagnose(made.model, (x, (right + 1) % 3), made.threat)
    assert found.verdict == "inconclusive" and found.against == ()
    assert [one.check for one in found.checks if one.was_run] == ["consistency"]
    assert found.summary == "7 of 8 checks could not be made, so it cannot be called sound."
    looked = soar.evaluate(made.model, (x, (right + 1) % 3), made.threat, "fgsm").diagnosis
    assert looked is not None and looked.verdict == "inconclusive"
    assert one_line(looked) == (
        "inconclusive: could not be checked: no clean image is correctly classified; run soar diagnose RUN"
    )


def test_an_oddity_counts_although_nothing_else_can_be_checked() -> None:
    made = shared(Linear(), count=20).target
    model = nn.Sequential(Linear(), nn.Softmax(dim=1))
    found = soar.diagnose(model, (made.images, (made.labels + 1) % 3), made.threat)
    assert found.verdict == "suspicious" and "probabilities" in found.summary


def test_every_check_is_told_and_sources_are_used() -> None:
    made = shared(Behind(rounded)).target
    lines: list[str] = []
    found = soar.diagnose(made.model, made.data, made.threat, sources={"open": Linear()}, say=lines.append)
    assert [line.split(":")[0] for line in lines] == list(CHECKS)
    box = next(one for one in found.checks if one.check == "black box")
    assert any("open" in name for name in box.numbers)


def test_a_second_call_goes_on_from_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = shared(Linear(), count=30).target
    journal = tmp_path / "found.jsonl"
    first = soar.diagnose(made.model, made.data, made.threat, journal=journal)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size > 0
    again = soar.diagnose(made.model, made.data, made.threat, journal=journal)
    assert again.checks == first.checks
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == size, "nothing was attacked again"


def test_nothing_to_look_at() -> None:
    empty = torch.zeros(0, 1, 6, 6), torch.zeros(0, dtype=torch.int64)
    with pytest.raises(UserError, match="data: got no images, expected at least one"):
        soar.diagnose(Linear(), empty, soar.Linf("0.1"))
