from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from soar import attacks, checkpoints, recipes
from soar.cli.main import main
from soar.errors import FileError
from soar.evaluation import Assessment
from soar.threat import L1, L2, Linf
from tests.cli.tiny import TINY

QUICK = ["--examples", "40", "--threads", "1", "--quiet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evaluate") / "run"
    assert main(["train", "demo-robust", *TINY, "--max_steps", "60", "--output", str(path)]) == 0
    return path


def test_a_run_is_evaluated_as_its_recipe_says(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), *QUICK]) == 0
    found = Assessment.load(run / "assessment.json")
    assert found.threat == Linf("0.1") and len(found) == 40
    assert found.names == ["clean", "Adaptive", "Square-200", "worst case"]
    assert found.protocol.startswith("stopped after Adaptive and Square-200")
    assert found.data == "fashion-mnist-sample (test)"
    shown = capsys.readouterr().out
    assert f"{100 * found.worst_case:.1f}%" in shown and "95% interval" in shown
    assert not list(run.glob("*.partial*"))


def test_corruptions_are_measured_beside_attacks(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output", str(tmp_path / "found.json")]
    assert main(["evaluate", str(run), *QUICK, "--attacks", "fgsm", *output, "--corruptions"]) == 0
    found = Assessment.load(tmp_path / "found.json").corruptions
    assert found is not None and len(found.results) == 75
    shown = capsys.readouterr().out
    assert "Accuracy under common corruptions" in shown and f"{100 * found.accuracy():.1f}%" in shown
    more = ["--corruptions", str(tmp_path), "--output", str(tmp_path / "other.json")]
    assert main(["evaluate", str(run), *QUICK, *more]) == 2
    assert "labels.npy: cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "other.json").exists()


def test_earlier_results_are_not_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "assessment.json").touch()
    before = (run / "assessment.json").read_text()
    assert main(["evaluate", str(run), *QUICK, "--attacks", "fgsm"]) == 0
    assert (run / "assessment.json").read_text() == before
    assert Assessment.load(run / "assessment-2.json").names == ["clean", "FGSM", "worst case"]
    capsys.readouterr()
    assert main(["evaluate", str(run), *QUICK, "--output", str(run / "assessment.json")]) == 2
    assert "assessment.json exists already; choose another name" in capsys.readouterr().err


def test_flags_change_threat_attacks_split_and_output(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    flags = ["--norm", "l2", "--eps", "0.5", "--attacks", "fgsm", "pgd:steps=3,restarts=2"]
    flags += ["--split", "validation", "--seed", "4", "--output", str(output)]
    assert main(["evaluate", str(run), *QUICK, *flags]) == 0
    found = Assessment.load(output)
    assert found.threat == L2("0.5") and found.seed == 4
    assert found.names == ["clean", "FGSM", "PGD-3 x2", "worst case"]
    assert found.data == "fashion-mnist-sample (validation)"


def test_suites_are_those_of_the_norm_on_the_command_line(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    flags = ["--norm", "l1", "--eps", "1", "--attacks", "standard:steps=2,targets=1,queries=2"]
    assert main(["evaluate", str(run), *QUICK, *flags, "--output", str(output)]) == 0
    found = Assessment.load(output)
    assert found.threat == L1(1)
    assert found.names[1] == "APGD-CE 2 steps x5"


def test_models_from_elsewhere_are_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "from torch.nn import *\ndef build():\n    return Sequential(Flatten(), Linear(784, 10))\n"
    (tmp_path / "elsewhere_net.py").write_text(source)
    torch.save({"1.weight": torch.eye(10, 784), "1.bias": torch.zeros(10)}, tmp_path / "w.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = [
        "evaluate",
        "--model",
        "elsewhere_net:build",
        "--weights",
        "w.pt",
        "--data",
        "fashion-mnist-sample",
    ]
    assert main([*words, "--eps", "8/255", *QUICK]) == 0
    found = Assessment.load(tmp_path / "assessment.json")
    assert found.model == "elsewhere_net:build w.pt" and found.threat == Linf("8/255")
    capsys.readouterr()
    assert main([*words, *QUICK]) == 2
    assert "--model needs --eps too" in capsys.readouterr().err


def test_models_of_the_package_are_named_with_options_and_fit_the_data(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = next((run / "checkpoints").glob("*/model.safetensors"))
    recipe = recipes.load(run / "recipe.toml")
    options = ",".join(f"{key}={value}" for key, value in recipe.model.items() if key != "name")
    words = ["evaluate", "--model", f"{recipe.model['name']}:{options}", "--weights", str(weights)]
    words += ["--data", recipe.data.name, "--eps", "0.1", "--attacks", "fgsm", "--examples", "8"]
    assert main([*words, "--output", str(tmp_path / "found.json"), "--quiet"]) == 0
    assert Assessment.load(tmp_path / "found.json").accuracy("clean") >= 0
    capsys.readouterr()
    words[2] = "resnt10"
    assert main(words) == 2
    assert "did you mean 'resnet10'" in capsys.readouterr().err


def test_an_interrupted_evaluation_goes_on_with_the_same_command(run: Path, tmp_path: Path) -> None:
    attacks = ["--attacks", "pgd:steps=100,restarts=3,step_size=1/100000", "--eps", "1/1000"]
    words = [sys.executable, "-m", "soar", "evaluate", str(run), "--threads", "1", "--examples", "60"]
    words += [*attacks, "--batch-size", "4", "--output", str(tmp_path / "a.json")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    journal = tmp_path / "a.partial.rank0.jsonl"
    while not journal.exists() or journal.read_text().count("\n") < 4:
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the same command goes on from here" in errors
    known = journal.read_text().count("\n")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not journal.exists() and (tmp_path / "a.json").exists()
    first = next(line for line in done.stderr.splitlines() if line.startswith("PGD-100"))
    assert int(first.split()[2].split("/")[0]) >= known


def test_two_processes_find_what_one_finds(run: Path, tmp_path: Path) -> None:
    words = ["evaluate", str(run), "--threads", "1", "--examples", "30", "--batch-size", "8", "--quiet"]
    words += ["--attacks", "standard:steps=4,targets=2,queries=10", "fgsm", "fast:steps=3", "--output"]
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "soar"]
    subprocess.run([*two, *words, str(tmp_path / "two.json")], check=True, capture_output=True)
    assert main([*words, str(tmp_path / "one.json")]) == 0
    one, both = (Assessment.load(tmp_path / f"{name}.json") for name in ("one", "two"))
    assert torch.equal(one.index, both.index) and len(both.attacks) == 6
    for left, right in zip(one.attacks, both.attacks, strict=True):
        assert torch.equal(left.robust, right.robust), left.label


def test_several_radii_give_a_curve_and_a_file_each(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(run), *QUICK, "--attacks", "quick", "--eps", "0.02", "1/10"]
    assert main([*words, "--output", str(tmp_path / "found.json")]) == 0
    shown = capsys.readouterr().out
    assert "Robust accuracy over the radius" in shown and "linf 0.02" in shown
    small, large = (Assessment.load(tmp_path / f"found-eps{eps}.json") for eps in ("0.02", "1_10"))
    assert small.threat == Linf("0.02") and large.threat == Linf("0.1")
    assert not (large.survivors("worst case") & ~small.survivors("worst case")).any()
    assert len(list(tmp_path.iterdir())) == 2
    assert main([*words, "--output", str(tmp_path / "found.json")]) == 2
    assert "found-eps0.02.json exists already" in capsys.readouterr().err


def test_a_budget_limits_the_images(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", str(run), "--threads", "1", "--quiet", "--attacks", "fgsm", "--budget"]
    assert main([*words, "0.001s", "--output", str(tmp_path / "found.json")]) == 0
    assert len(Assessment.load(tmp_path / "found.json")) == 64
    assert "64 of 2000 images, drawn at random, within 0.0 s" in capsys.readouterr().out
    assert main([*words, "soon"]) == 2
    assert "budget: got 'soon', expected a time such as 90s, 10m or 1h" in capsys.readouterr().err
    assert main([*words, "1m", "--eps", "0.1", "0.2"]) == 2
    assert "--budget cannot be combined with several --eps" in capsys.readouterr().err


def test_the_protocol_is_printed_and_stored(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), *QUICK[:2], "--attacks", "standard:steps=3,targets=1,queries=5"]) == 0
    printed = capsys.readouterr().out
    assert "APGD-CE 3 steps: steps 3, restarts 1, loss ce, targets 0; on survivors" in printed
    saved = Path(printed.strip().splitlines()[-1].removeprefix("saved "))
    stored = Assessment.load(saved).attacks[3]
    assert stored.parameters == {"queries": 5, "restarts": 1, "p": 0.8} and stored.survivors_only


def test_a_transfer_attack_takes_its_source_from_a_run(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.json"
    words = ["evaluate", str(run), *QUICK[:2], "--attacks", f"transfer:source={run},steps=3"]
    assert main([*words, "--output", str(output)]) == 0
    (found,) = Assessment.load(output).attacks
    assert found.label == f"PGD-3 from {run.name}" and found.parameters["source_name"] == run.name
    assert not found.backward.any()


def copied(run: Path, folder: Path) -> Path:
    """Copy a run without its results, and save its weights a second time as an earlier checkpoint."""
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("assessment*", "diagnosis*"))
    newest = checkpoints.newest_usable(folder)
    assert newest is not None
    snapshot = checkpoints.load(newest)
    state = {name: value for name, value in snapshot.state.items() if name != "sha256"} | {"step": 1}
    checkpoints.save(folder, replace(snapshot, state=state))
    return newest


def test_an_assessment_names_the_weights_it_is_about(run: Path, tmp_path: Path) -> None:
    newest = copied(run, tmp_path / "run")
    words = ["evaluate", str(tmp_path / "run"), *QUICK, "--attacks", "fgsm"]
    assert main(words) == 0
    found = Assessment.load(tmp_path / "run" / "assessment.json").weights
    assert found is not None and found.file == newest / "model.safetensors"
    assert found.sha256 == hashlib.sha256(found.file.read_bytes()).hexdigest()
    assert found.step == json.loads((newest / "state.json").read_text())["step"]
    assert main([*words, "--checkpoint", "step-00000001"]) == 0
    chosen = Assessment.load(tmp_path / "run" / "assessment-2.json").weights
    assert chosen is not None and chosen.step == 1


@pytest.mark.parametrize("command", ["evaluate", "diagnose", "report", "export"])
@pytest.mark.parametrize("harm", ["damaged", "deleted"])
def test_other_weights_than_the_best_are_used_only_if_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, harm: str
) -> None:
    newest = copied(run, tmp_path / "run")
    if harm == "damaged":
        (newest / "model.safetensors").write_bytes(b"half")
    else:
        shutil.rmtree(newest)
    capsys.readouterr()
    output = tmp_path / ("page.html" if command == "report" else "output")
    flags = ["--output", str(output)] + (["--format", "torchscript"] if command == "export" else [])
    assert main([command, str(tmp_path / "run"), *flags]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and f"checkpoint {newest} is damaged" in lines[0]
    assert lines[0].endswith("name another one, step-00000001 (flag --checkpoint)")
    assert not output.exists()
    if command == "export":
        assert main([command, str(tmp_path / "run"), *flags, "--checkpoint", "step-00000001"]) == 0
        assert output.exists()


def test_a_result_that_cannot_be_saved_has_been_shown_and_is_not_computed_again(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "found.json"
    words = ["evaluate", str(run), *QUICK, "--attacks", "pgd", "--output", str(output)]

    def full(*_: Any) -> None:
        raise FileError(f"{output}: cannot be written (No space left on device)")

    monkeypatch.setattr(Assessment, "save", full)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert "worst case" in shown.out
    assert shown.err == f"soar: {output}: cannot be written (No space left on device)\n"
    monkeypatch.undo()
    attacked: list[int] = []
    attack = attacks.run

    def counted(model: Any, recipe: Any, threat: Any, images: Any, *rest: Any, **options: Any) -> Any:
        attacked.append(len(images))
        return attack(model, recipe, threat, images, *rest, **options)

    monkeypatch.setattr("soar.evaluation.target.run", counted)
    assert main(words) == 0
    assert sum(attacked) == 0, "the journal was kept"
    assert Assessment.load(output).names == ["clean", "PGD-20", "worst case"]
