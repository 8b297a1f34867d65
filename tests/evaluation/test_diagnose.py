from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import soar
from soar.errors import UserError
from soar.evaluation.diagnose import CHECKS
from soar.evaluation.first_look import one_line
from tests.evaluation.checks.made import Behind, Linear, images, rounded, shared


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


def test_large_logits_that_mislead_no_attack_are_sound() -> None:
    made = shared(Linear(factor=50.0)).target
    found = soar.diagnose(made.model, made.data, made.threat)
    gradients = next(one for one in found.checks if one.check == "gradients")
    assert gradients.numbers["vanishing"] > 0.5  # type: ignore[operator]
    assert found.verdict == "sound", [one.sentence for one in found.against]


def test_a_model_that_is_constant_around_every_image_is_inconclusive() -> None:
    """One bit per pixel, and no pixel near the border: no attack can do anything, and no gradient says so."""
    model, x = Behind(lambda x: (x > 0.5).to(x)), images(60)
    x = x + 0.2 * (x - 0.5).sign()
    labels = model(x).argmax(dim=1).detach()
    assert len(labels.unique()) > 1
    found = soar.diagnose(model, (x, labels), soar.Linf("0.1"))
    assert found.verdict == "inconclusive" and "gradient attacks say nothing here" in found.summary
    looked = soar.evaluate(model, (x, labels), soar.Linf("0.1"), "quick").diagnosis
    assert looked is not None and looked.verdict == "inconclusive"


class Decoy(nn.Module):
    """Class 0 everywhere; class 1 is near but out of reach, class 2 far and reached from half of them."""

    def __init__(self, eps: float, classes: int) -> None:
        super().__init__()
        first, second = Linear(classes=2).weight.detach()
        self.classes, self.near, self.far = classes, second.sign() * 0.4 / (eps * 36), first
        self.missing = float(self.along(images(80), self.far).median() + 0.95 * eps * self.far.abs().sum())

    def along(self, x: Tensor, direction: Tensor) -> Tensor:
        return ((x - 0.5) * direction).flatten(1).sum(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        near, far = self.along(x, self.near) - 0.7, self.along(x, self.far) - self.missing
        others = [torch.full_like(near, -30)] * (self.classes - 3)
        return 20 * torch.stack([torch.zeros_like(near), near, far, *others], dim=1)


@pytest.mark.parametrize("classes", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_the_number_of_classes_does_not_set_evaluate_against_diagnose(classes: int) -> None:
    model, x, threat = Decoy(0.05, classes), images(40), soar.Linf("0.05")
    data = x, model(x).argmax(dim=1)
    found = soar.diagnose(model, data, threat)
    looked = soar.evaluate(model, data, threat, ["pgd", "apgd:loss=dlr,targets=9"]).diagnosis
    assert looked is not None and looked.verdict == found.verdict == "masked"
    worst = next(one for one in looked.checks if one.check == "worst case")
    assert worst.numbers["cause"] == "search"


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 50.0])
def test_the_verdict_is_the_same_for_other_images_and_seeds_or_says_that_it_is_close(factor: float) -> None:
    whole = shared(Linear(factor, classes=10), count=700).target
    found = []
    for count, start in ((100, 0), (200, 100), (400, 300)):
        for seed in range(3):
            x, labels = whole.images[start : start + count], whole.labels[start : start + count]
            found.append(soar.diagnose(whole.model, (x, labels), whole.threat, seed=seed))
    verdicts = {one.verdict for one in found if not one.is_at_threshold}
    assert len(verdicts) <= 1, [(one.verdict, one.is_at_threshold, one.summary) for one in found]


def test_a_model_that_is_never_right_is_inconclusive() -> None:
    made = shared(Linear(), count=20).target
    x, right = made.images, made.labels
    found = soar.diagnose(made.model, (x, (right + 1) % 3), made.threat)
    assert found.verdict == "inconclusive" and found.against == ()
    assert [one.check for one in found.checks if one.was_run] == ["consistency"]
    assert found.summary == "8 of 9 checks could not be made, so it cannot be called sound."
    looked = soar.evaluate(made.model, (x, (right + 1) % 3), made.threat, "fgsm").diagnosis
    assert looked is not None and looked.verdict == "inconclusive"
    assert one_line(looked) == (
        "inconclusive: could not be checked: no clean image is correctly classified; run all checks:"
        " soar.diagnose(model, data, threat)"
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
