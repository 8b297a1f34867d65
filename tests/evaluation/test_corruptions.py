from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.data import Dataset, load
from soar.data.corruptions import CORRUPTIONS, corrupt
from soar.distributed import World
from soar.errors import UserError
from soar.evaluation import Assessment, evaluate
from soar.evaluation.compare import join, rows_in_common
from soar.evaluation.corrupted import measure, open_source
from soar.evaluation.corruptions import CorruptionResult, Corruptions, corruption_rows, stack_corruptions
from soar.evaluation.target import Target
from soar.threat import Linf
from tests.data.corruptions.test_files import folder  # noqa: F401 - a fixture
from tests.evaluation.test_assessment import assessment, flags

THREAT = Linf("2/255")


def corruptions(*correct: str) -> Corruptions:
    """Two corruptions at two severities, on five examples unless told otherwise."""
    texts = correct or ("11110", "11000", "11111", "00000")
    pairs = [(name, severity) for name in ("fog", "snow") for severity in (1, 2)]
    return Corruptions(
        source="made up",
        results=tuple(
            CorruptionResult(name=name, severity=severity, correct=flags(text))
            for (name, severity), text in zip(pairs, texts, strict=True)
        ),
    )


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("fashion-mnist-sample")


@pytest.fixture(scope="module")
def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))


def test_accuracy_is_the_mean_of_shares() -> None:
    found = corruptions()
    assert found.names == ["fog", "snow"] and found.severities == [1, 2]
    assert found.accuracy("fog", 1) == 0.8 and found.accuracy("fog") == pytest.approx(0.6)
    assert found.accuracy(severity=2) == pytest.approx(0.2) and found.accuracy() == pytest.approx(0.55)
    assert corruption_rows(found) == [
        ["fog", "80.0%", "40.0%", "60.0%"],
        ["snow", "100.0%", "0.0%", "50.0%"],
        ["mean", "90.0%", "20.0%", "55.0%"],
    ]


def test_an_assessment_stores_what_was_found(tmp_path: Path) -> None:
    found = replace(assessment(), corruptions=corruptions())
    found.save(tmp_path / "a.json")
    stored = json.loads((tmp_path / "a.json").read_text())["corruptions"]
    assert stored["accuracy"] == pytest.approx({"fog": 0.6, "snow": 0.5, "mean": 0.55})
    assert stored["results"][1] == {"name": "fog", "severity": 2, "correct": "11000"}
    again = Assessment.load(tmp_path / "a.json")
    assert again.as_dict() == found.as_dict()
    for text in (str(again), again._repr_html_()):
        assert "Accuracy under common corruptions" in text and "snow" in text and "55.0%" in text
    assert "corruption" not in str(assessment())


def test_files_of_the_version_before_are_read(tmp_path: Path) -> None:
    stored = assessment().as_dict()
    stored["format"] = 4
    del stored["corruptions"]
    (tmp_path / "old.json").write_text(json.dumps(stored))
    assert Assessment.load(tmp_path / "old.json").as_dict() == assessment().as_dict()
    for version in (3, 6):
        (tmp_path / "other.json").write_text(json.dumps(stored | {"format": version}))
        with pytest.raises(UserError, match=f"got version {version} of the assessment format, expected 5"):
            Assessment.load(tmp_path / "other.json")


@pytest.mark.parametrize(("change", "message"), [
    ({"results": []}, "do not have every severity once"),
    ({"accuracy": {"fog": 0.6}}, "does not name the corruptions and their mean"),
    ({"accuracy": {"fog": 0.6, "snow": 0.5, "mean": 0.5}}, "of mean is 0.5 but the examples give 0.55"),
    ({"results": [{"name": "fog", "severity": 1, "correct": "1"}]}, "fog has 1 entries for 5 examples"),
    ({"results": [{"name": "fog", "severity": 1, "correct": "10101"}] * 2}, "every severity once"),
])  # fmt: skip
def test_contradictions_are_damage(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    stored = replace(assessment(), corruptions=corruptions()).as_dict()
    stored["corruptions"] |= change
    (tmp_path / "a.json").write_text(json.dumps(stored))
    with pytest.raises(UserError, match=message):
        Assessment.load(tmp_path / "a.json")


def test_parts_are_selected_and_joined_with_their_examples() -> None:
    whole = replace(assessment(), corruptions=corruptions())
    parts = [whole.select(torch.tensor(rows)) for rows in ([3, 4], [0, 1, 2])]
    assert parts[0].corruptions is not None and parts[0].corruptions.accuracy("fog", 1) == 0.5
    joined = join(parts).select(torch.tensor([2, 3, 4, 0, 1]))
    assert joined.as_dict() == whole.as_dict()
    assert join([parts[0], replace(parts[1], corruptions=None)]).corruptions is None
    first, second = (replace(whole, attacks=(one,)) for one in whole.attacks)
    assert join([replace(first, corruptions=None), second]).as_dict() == whole.as_dict()


def test_an_evaluation_classifies_every_corrupted_image(model: nn.Module, data: Dataset) -> None:
    split = data.test.first(30)
    found = evaluate(model, split, THREAT, "fgsm", seed=2, corruptions=True)
    assert found.corruptions is not None and found.corruptions.names == [*CORRUPTIONS]
    assert "CIFAR-10-C" in found.corruptions.source and "frost is drawn" in found.corruptions.source
    for one in found.corruptions.results[::7]:
        images = corrupt(split.images, one.name, one.severity, index=split.indices, seed=2)
        with torch.no_grad():
            said = model(images.float() / 255).argmax(dim=1)
        assert torch.equal(one.correct, said == split.labels), one.name
    assert evaluate(model, split, THREAT, "fgsm").corruptions is None


def test_the_curve_and_a_budget_measure_the_examples_that_they_assess(
    model: nn.Module, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soar.evaluation.corrupted.CORRUPTIONS", ("contrast",))
    split = data.test.first(20)
    curve = evaluate(model, split, [Linf("1/255"), Linf("2/255")], "fgsm", corruptions=True)
    assert curve[0].corruptions is curve[1].corruptions is not None
    monkeypatch.setattr("soar.evaluation.budget._FIRST", 6)
    some = evaluate(model, split, THREAT, "fgsm", budget=0.0001, corruptions=True)
    assert len(some) == 6 and some.corruptions is not None
    assert curve[0].corruptions is not None
    rows = rows_in_common(some.index, split.indices)[1]
    for few, all_ in zip(some.corruptions.results, curve[0].corruptions.results, strict=True):
        assert torch.equal(few.correct, all_.correct[rows])


def test_the_authors_files_are_measured(
    model: nn.Module,
    folder: Path,  # noqa: F811
) -> None:
    labels = torch.tensor([3, 1, 4, 1])
    images = (torch.arange(4 * 3 * 8 * 8) % 251).to(torch.uint8).reshape(4, 3, 8, 8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))
    found = evaluate(net, (images, labels), THREAT, "fgsm", corruptions=folder)
    made = evaluate(net, (images, labels), THREAT, "fgsm", corruptions=True)
    assert found.corruptions is not None and made.corruptions is not None
    assert found.corruptions.source == f"files of {folder}"
    pairs: list[tuple[Tensor, Tensor]] = [
        (one.correct, other.correct)
        for one, other in zip(found.corruptions.results, made.corruptions.results, strict=True)
    ]
    assert all(torch.equal(one, other) for one, other in pairs)


def test_what_cannot_be_measured_is_refused_before_any_attack(
    model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attacked(*_: object, **__: object) -> None:
        raise AssertionError("attacked")

    monkeypatch.setattr(import_module("soar.evaluation.evaluate"), "evaluate_target", attacked)
    two_channels = torch.zeros(2, 2, 4, 4), torch.tensor([0, 1])
    with pytest.raises(UserError, match="with 1 or 3 channels"):
        evaluate(nn.Flatten(), two_channels, THREAT, corruptions=True)
    with pytest.raises(UserError, match=r"labels\.npy: cannot be read"):
        evaluate(nn.Flatten(), (torch.zeros(2, 3, 4, 4), torch.tensor([0, 1])), THREAT, corruptions=tmp_path)


def test_each_process_measures_its_part(
    model: nn.Module, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target(model=model, data=data.test.first(7), threat=THREAT)
    source = open_source(True, target)
    assert source is not None
    monkeypatch.setattr("soar.evaluation.corrupted.CORRUPTIONS", ("shot_noise",))
    whole, parts = measure(target, source), []
    for rank in range(8):
        # The last process has no example at all.
        world = World(rank, 8)
        monkeypatch.setattr(World, "gather", lambda _, value: [value])
        monkeypatch.setattr("soar.evaluation.corrupted.current", lambda world=world: world)
        parts.append(measure(target, source))
    joined = stack_corruptions(parts)
    assert joined is not None and joined.as_dict() == whole.as_dict()
    assert len(parts[-1].results[0].correct) == 0
