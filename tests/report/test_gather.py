from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from soar import recipes, runs
from soar.cli.main import main
from soar.errors import UserError
from soar.evaluation import Assessment
from soar.evaluation.diagnosis import Diagnosis
from soar.report import gather as gather_module
from soar.report.content import RunContent
from soar.report.gather import gather
from soar.runs import Run
from soar.weights import find_weights
from tests.evaluation.test_corruptions import corruptions

EXAMPLES = 20
SHORT = [
    *("--model.width", "4", "--max_steps", "30", "--batch_size", "32", "--data.validation", "100"),
    *("--validation.examples", "20", "--validation.steps", "2", "--validation.select", "robust"),
    *("--threads", "1", "--quiet"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps, that nothing is written to any more."""
    folder = tmp_path_factory.mktemp("trained") / "tiny"
    assert main(["train", "demo-standard", *SHORT, "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def gathered(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunContent, list[str]]:
    """The same run after a first report, with what was said."""
    folder = tmp_path_factory.mktemp("gathered") / "tiny"
    shutil.copytree(trained, folder)
    lines: list[str] = []
    return folder, gather(runs.find(folder), examples=EXAMPLES, say=lines.append), lines


@pytest.fixture
def run(gathered: tuple[Path, RunContent, list[str]], tmp_path: Path) -> Run:
    """A copy of that run, to be damaged."""
    shutil.copytree(gathered[0], tmp_path / "tiny")
    return runs.find(tmp_path / "tiny")


def measured(content: RunContent) -> tuple[object, ...]:
    return (
        content.gallery,
        content.surfaces,
        content.accuracy_by_eps,
        content.class_outcomes,
        content.training,
    )


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("computed again")


def test_everything_that_a_report_shows_is_there(gathered: tuple[Path, RunContent, list[str]]) -> None:
    folder, content, lines = gathered
    assert content.name == "tiny" and len(content.classes) == 10
    assert len(content.assessment) == content.curve_examples == EXAMPLES
    assert [curve.label for curve in content.accuracy_by_eps] == [
        "FGSM",
        "PGD-20",
        "PGD-20 margin",
        "worst case",
    ]
    assert all(curve.x[4] == 0.1 and len(curve.y) == 9 for curve in content.accuracy_by_eps)
    assert {"loss", "accuracy", "lr", "eps", "clean", "robust"} <= {curve.label for curve in content.training}
    assert 0 < len(content.gallery) <= 6 and 0 < len(content.surfaces) <= 3
    assert sum(one.examples for one in content.class_outcomes) == EXAMPLES
    assert content.recipe == (folder / "recipe.toml").read_text()
    assert content.environment["torch"] == torch.__version__
    assert content.commands[1].startswith(f"soar evaluate {folder} --examples {EXAMPLES}")
    assert content.diagnosis is content.assessment.diagnosis
    assert (folder / "assessment.json").exists() and any("saved" in line for line in lines)
    assert not list(folder.rglob("*partial*"))


def test_figures_agree_with_one_another(gathered: tuple[Path, RunContent, list[str]]) -> None:
    """The curve at eps is never above the assessment, and both start from the same clean accuracy."""
    content = gathered[1]
    *_, worst = content.accuracy_by_eps
    assert worst.y[0] == content.assessment.accuracy("clean")
    assert worst.y[4] <= content.assessment.worst_case
    for curve in content.accuracy_by_eps:
        assert list(curve.y) == sorted(curve.y, reverse=True)
        assert all(low <= y <= high for low, y, high in zip(curve.low, curve.y, curve.high, strict=True))
    broken = sum(one.correct - one.robust for one in content.class_outcomes)
    assert broken == sum(count for one in content.class_outcomes for _, count in one.into)
    for image in content.gallery:
        shares = [frame.probabilities for frame in image.frames]
        assert max(range(10), key=shares[0].__getitem__) == image.label
        assert all(abs(sum(one) - 1) < 1e-3 for one in shares)


def test_a_second_report_computes_nothing(
    run: Run, gathered: tuple[Path, RunContent, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soar.attacks.engine.run", refuse)
    monkeypatch.setattr("soar.evaluation.target.run", refuse)
    monkeypatch.setattr("soar.evaluation.target.predict", refuse)
    monkeypatch.setattr(gather_module, "evaluate_target", refuse)
    lines: list[str] = []
    again = gather(run, examples=EXAMPLES, say=lines.append)
    assert measured(again) == measured(gathered[1])
    assert lines == [f"{run.path / 'assessment.json'}: used, {EXAMPLES} images, 3 attacks"]


@pytest.mark.parametrize("name", ["gallery", "surfaces", "eps_curve-2"])
def test_a_damaged_measurement_is_made_again(
    run: Run, gathered: tuple[Path, RunContent, list[str]], name: str
) -> None:
    file = run.path / "report" / f"{name}.json"
    whole = file.read_text()
    file.write_text(whole[:40])
    lines: list[str] = []
    assert measured(gather(run, examples=EXAMPLES, say=lines.append)) == measured(gathered[1])
    assert file.read_text() == whole
    assert any(str(file) in line and "made again" in line for line in lines)


def test_changed_weights_are_measured_again(run: Run, gathered: tuple[Path, RunContent, list[str]]) -> None:
    """The old assessment is recognized by its weights, and is neither used nor lost."""
    _change_weights(run)
    old = (run.path / "assessment.json").read_text()
    lines: list[str] = []
    content = gather(run, examples=EXAMPLES, say=lines.append)
    assert any("made of other weights" in line for line in lines)
    assert content.accuracy_by_eps != gathered[1].accuracy_by_eps
    assert (run.path / "assessment.json").read_text() == old
    made = Assessment.load(run.path / "assessment-2.json")
    assert torch.equal(made.correct, content.assessment.correct)


def test_an_interrupted_report_goes_on(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "r")
    opened = runs.find(tmp_path / "r")
    with monkeypatch.context() as patched:
        patched.setattr(gather_module, "measure_surfaces", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            gather(opened, examples=4, say=lambda _: None)
    kept = {file.name for file in (opened.path / "report").iterdir()}
    assert kept == {"eps_curve-1.json", "eps_curve-2.json", "eps_curve-3.json", "gallery.json"}
    monkeypatch.setattr(gather_module, "breaking_radii", refuse)
    monkeypatch.setattr(gather_module, "attack_gallery", refuse)
    monkeypatch.setattr(gather_module, "evaluate_target", refuse)
    assert gather(opened, examples=4, say=lambda _: None).curve_examples == 4


def test_a_diagnosis_on_record_is_shown_and_named_among_the_commands(run: Run) -> None:
    made = Assessment.load(run.path / "assessment.json")
    found = replace(
        Diagnosis(model="m", data=made.data, threat=made.threat, examples=9, checks=()), weights=made.weights
    )
    found.save(run.path / "diagnosis.json")
    content = gather(run, examples=EXAMPLES, say=lambda _: None)
    assert content.diagnosis == found and f"soar diagnose {run.path}" in content.commands


@pytest.mark.parametrize("text", ["{", "[1]", None])
def test_a_lost_environment_does_not_stop_a_report(run: Run, text: str | None) -> None:
    path = run.path / "environment.json"
    path.unlink() if text is None else path.write_text(text)
    lines: list[str] = []
    content = gather(run, examples=EXAMPLES, say=lines.append)
    assert content.environment == {} and sum(str(path) in line for line in lines) == 1
    assert content.commands[0] == f"soar train {run.path / 'recipe.toml'}"


def test_mistakes_are_told_in_one_line(trained: Path, tmp_path: Path) -> None:
    opened = runs.find(trained)
    with pytest.raises(UserError, match="examples: got 0, expected at least 1"):
        gather(opened, examples=0)
    empty = runs.plan(opened.recipe, tmp_path / "new")
    empty.create()
    with pytest.raises(UserError, match=r"holds no usable weights; train it first \(soar train --resume"):
        gather(empty)
    elsewhere = runs.plan(recipes.load("cifar10-soar-small"), tmp_path / "cifar")
    elsewhere.create()
    with pytest.raises(UserError, match="cifar10") as refused:
        gather(elsewhere, root=tmp_path)
    assert "\n" not in str(refused.value)


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


def _change_weights(run: Run) -> None:
    """Exchange the best checkpoint's weights, as further training would."""
    import hashlib

    from safetensors.torch import load_file, save_file

    file = find_weights(run.path, "run").file
    save_file(
        {name: -tensor if name.endswith("weight") else tensor for name, tensor in load_file(file).items()},
        file,
    )
    state = file.parent / "state.json"
    noted = json.loads(state.read_text())
    noted["sha256"][file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    rest = {name: value for name, value in noted.items() if name != "sha256"}
    noted["sha256"]["state.json"] = hashlib.sha256(json.dumps(rest, indent=2).encode()).hexdigest()
    state.write_text(json.dumps(noted, indent=2))


def test_certificates_on_record_become_a_bracket(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--examples", str(EXAMPLES), "--threads", "1", "--quiet", "--eps", "1/100000", "0.1"]
    assert main(["certify", str(run.path), *words]) == 0
    found = gather(run, examples=EXAMPLES, say=lambda _: None)
    assert [str(one.threat) for one in found.certificates] == ["linf 1e-05", "linf 0.1"]
    assert found.bracket is not None and found.bracket.examples == EXAMPLES
    assert found.bracket.certified <= found.bracket.attacked <= found.bracket.clean
    attacked, proved = found.bracket_by_eps
    assert proved.x == (0.0, 1e-5, 0.1) and attacked.y[0] == proved.y[0]
    assert sum(line.startswith("soar certify") for line in found.commands) == 2


def test_corruptions_of_another_assessment_are_shown(run: Run) -> None:
    found = Assessment.load(run.path / "assessment.json")
    assert gather(run, examples=EXAMPLES, say=lambda _: None).corruptions is None
    measured = corruptions(*["1" * 5] * 4)
    few = found.select(torch.arange(5))
    replace(few, corruptions=measured).save(run.path / "assessment-2.json")
    content = gather(run, examples=EXAMPLES, say=lambda _: None)
    assert len(content.assessment) == len(found)
    assert content.corruptions is not None and content.corruptions.as_dict() == measured.as_dict()
