"""The confusion table of the verdict: what networks are is measured, and nothing is measured twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.benchmarks.running import benchmark
from torch import nn

from soar.data import Split
from soar.evaluation.diagnosis import CheckResult, Diagnosis, Verdict
from soar.threat import Linf


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    threads = torch.get_num_threads()
    for name in ("hiding", "networks", "known"):
        benchmark(name, monkeypatch)
    yield benchmark("verdicts", monkeypatch)
    torch.set_num_threads(threads)


def halves(images: int = 12) -> Split:
    """Images that are bright on the left or on the right."""
    labels = torch.arange(images) % 2
    pixels = torch.full((images, 1, 4, 4), 110, dtype=torch.uint8)
    for number, label in enumerate(labels.tolist()):
        pixels[number, 0, :, 2 * label : 2 * label + 2] = 140
    return Split(pixels, labels, torch.arange(images))


def difference() -> nn.Module:
    """A linear classifier of these, which a change of each pixel by 0.06 fools."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2, bias=False))
    side = torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(4)
    layer = model[1]
    assert isinstance(layer, nn.Linear)
    layer.weight.data = torch.stack([side, -side])
    return model


@pytest.fixture
def small(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Two networks in the calibration set, made without training."""
    known, hiding = script.known, script.hiding
    chosen = (
        known.Known("honest", "sound", ("difference",), eps=Linf("0.08")),
        known.Known(
            "rounded", "masked", ("difference",), known.before(lambda: hiding.Rounded(30)), Linf("0.08")
        ),
    )
    monkeypatch.setattr(known, "load", lambda name: difference() if name == "difference" else None)
    monkeypatch.setattr(known.Known, "test", halves())
    monkeypatch.setattr(known, "SETS", {"calibration": chosen, "fresh": ()})
    return script


@pytest.mark.parametrize(
    ("pgd", "strongest", "flat", "randomized", "expected"),
    [
        (0.8, 0.7, 0.0, False, "masked"),
        (0.8, 0.71, 0.0, False, "between"),
        (0.8, 0.77, 0.0, False, "sound"),
        (0.8, 0.79, 1.0, False, "inconclusive"),
        (0.0, 0.0, 1.0, False, "sound"),
        (0.8, 0.2, 1.0, True, "random"),
    ],
)
def test_what_a_network_is_follows_from_two_attacks(
    script: ModuleType, pgd: float, strongest: float, flat: float, randomized: bool, expected: str
) -> None:
    found = script.truth(0.9, pgd, strongest, flat, randomized=randomized)
    assert found == expected


def test_the_sets_share_no_network_and_no_trick(script: ModuleType) -> None:
    known = script.known
    seen: dict[str, set[str]] = {}
    for name, chosen in known.SETS.items():
        assert len({one.name for one in chosen}) == len(chosen)
        kinds = [one.kind for one in chosen]
        assert kinds.count("masked") >= 10 and kinds.count("sound") >= 10
        assert {"random", "inconclusive"} <= set(kinds)
        seen[name] = {base for one in chosen for base in one.bases}
    assert not seen["calibration"] & seen["fresh"]
    assert seen["calibration"] | seen["fresh"] == set(known.TRAINED)


def test_variants_of_the_sample(script: ModuleType) -> None:
    source = script.known.source
    three = source("all:1,5,8")
    assert three.classes == ("trouser", "sandal", "bag")
    assert three.test.labels.bincount().tolist() == [200, 200, 200]
    assert len(set(three.test.labels[:30].tolist())) == 3
    uneven = source("imbalanced")
    counts = uneven.train.labels.bincount()
    assert counts[0] == 1000 and counts[9] == 41 and bool((counts.diff() < 0).all())
    assert len(uneven.test) == 2000
    assert source("levels-3:0,3").test.images.unique().tolist() == [0, 128, 255]


def test_a_network_is_masked_where_an_attack_around_the_trick_gains(small: ModuleType) -> None:
    honest, rounded = (small.measured(one) for one in small.known.SETS["calibration"])
    assert (honest["truth"], honest["clean"], honest["pgd"], honest["strongest"]) == ("sound", 1, 0, 0)
    assert (rounded["truth"], rounded["clean"], rounded["strongest"]) == ("masked", 1, 0)
    assert rounded["pgd"] > 0.5 and rounded["without_gradient"] == 1
    assert rounded["images"] == 12 and rounded["weights"] != ""


def test_logits_without_a_graph_have_no_gradient(small: ModuleType) -> None:
    images = halves()
    x = images.images.float() / 255
    for model, share in (
        (small.hiding.Votes(difference()), 1),
        (small.hiding.Projected(x, 2), 1),
        (difference(), 0),
    ):
        flat = nn.Sequential(model, nn.Flatten())
        assert small.share_without_gradient(flat, x, images.labels) == share


def test_a_random_network_is_judged_by_most_of_its_predictions(small: ModuleType) -> None:
    known, hiding = small.known, small.hiding
    noisy = known.Known(
        "noisy", "random", ("difference",), known.before(lambda: hiding.Noisy(0.01)), Linf("0.08")
    )
    found = small.measured(noisy)
    assert (found["truth"], found["clean"], found["strongest"]) == ("random", 1, 0)


def test_every_network_is_measured_and_diagnosed_once_for_its_weights_and_rules(
    small: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def diagnose(model: nn.Module, split: Split, threat: Linf, *, name: str, seed: int) -> Diagnosis:
        calls.append((name, len(split), seed))
        finding: Verdict = "suspicious" if small.hiding.tricks(model) else "sound"
        check = CheckResult(
            check="losses", title="t", finding=finding, sentence="It hides.", rule="r", excess=2
        )
        return Diagnosis(model=name, data="d", threat=threat, examples=len(split), checks=(check,))

    monkeypatch.setattr(small.soar, "diagnose", diagnose, raising=False)
    words = ["--set", "calibration", "--examples", "6", "--out", str(tmp_path)]
    small.main([*words, "--truth"])
    assert not calls

    small.main(words)
    assert calls == [("honest", 6, 0), ("rounded", 6, 0)]
    shown = capsys.readouterr().out
    text = (tmp_path / "verdicts-calibration.txt").read_text()
    assert "suspicious !" in text and "It hides." in text and "suspicious !" in shown
    counts = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith(("│ masked", "│ sound"))]
    assert [[cell.strip() for cell in row] for row in counts] == [
        ["masked", "0", "1", "0", "0", "1"],
        ["sound", "0", "0", "0", "1", "1"],
    ]

    def again(*_: Any) -> None:
        pytest.fail("measured again")

    monkeypatch.setattr(small, "measured", again)
    small.main([*words, "--stability", "--seeds", "2", "--only", "ROUNDED"])
    assert calls[2:] == [
        ("rounded", 3, 0),
        ("rounded", 3, 1),
        ("rounded", 6, 1),
        ("rounded", 12, 0),
        ("rounded", 12, 1),
    ]
    monkeypatch.setattr(small, "rules", lambda: "others")
    small.main(words)
    assert calls[7:] == [("honest", 6, 0), ("rounded", 6, 0)]
    records = json.loads((tmp_path / "verdicts-calibration.json").read_text())["networks"]
    assert [len(one["verdicts"]) for one in records] == [1, 6]
    assert records[1]["verdicts"][-1]["findings"] == {"losses": "suspicious"}


def test_a_network_is_trained_with_open_tricks_once(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, trained = script.known, []
    monkeypatch.setattr(known.networks, "CACHE", tmp_path)

    def train(name: str, model: nn.Module, *_: Any) -> None:
        trained.append((name, [trick.hides for trick in script.hiding.tricks(model)]))

    monkeypatch.setattr(known.networks, "train", train)
    for _ in range(2):
        model = known.load("thermometer")
    assert trained == [("thermometer", [False])]
    assert [trick.hides for trick in script.hiding.tricks(model)] == [True]
