from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from soar.cli.main import main
from soar.evaluation import Assessment, Certificate
from soar.evaluation.bounding import Bounding
from soar.threat import L2, Linf
from tests.cli.tiny import TINY

QUICK = ["--examples", "30", "--threads", "1", "--quiet"]
SOURCE = """
from torch.nn import *

def build():
    return Sequential(Flatten(), Linear(784, 32), ReLU(), Linear(32, 10))

class Step(Module):
    def forward(self, x):
        return x.sign()

def stepped():
    return Sequential(Flatten(), Step(), Linear(784, 10))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certify") / "run"
    assert (
        main(["train", "demo-robust", *TINY, "--max_steps", "40", "--model", "cnn6", "--output", str(path)])
        == 0
    )
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a network that is not in a run."""
    (tmp_path / "certified_net.py").write_text(SOURCE)
    generator = torch.Generator().manual_seed(0)
    shapes = {"1.weight": (32, 784), "1.bias": (32,), "3.weight": (10, 32), "3.bias": (10,)}
    weights = {name: 0.1 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(weights, tmp_path / "w.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    model = ["--model", "certified_net:build", "--weights", "w.safetensors"]
    return ["certify", *model, "--data", "fashion-mnist-sample", "--threads", "1", "--quiet"]


def test_a_run_is_certified_at_parts_of_its_eps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", str(run), *QUICK]) == 0
    files = sorted(run.glob("certificate*.json"))
    found = sorted((Certificate.load(path) for path in files), key=lambda one: one.threat.eps)
    assert [one.threat for one in found] == [Linf("0.1").scaled(part) for part in ("1/8", "1/4", "1/2", "1")]
    assert {one.data for one in found} == {"fashion-mnist-sample (test)"} and len(found[0]) == 30
    assert found[0].weights is not None
    shown = capsys.readouterr().out
    assert "certified" in shown and "crown: refine False, steps 0, precision float32" in shown
    assert not list(run.glob("*.partial*"))


def test_both_sides_are_shown_once_both_are_known(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in run.glob("certificate*.json"):
        path.unlink()
    assert main(["evaluate", str(run), *QUICK, "--attacks", "fgsm", "--eps", "1/1000"]) == 0
    assert "certified" not in capsys.readouterr().out
    assert main(["certify", str(run), *QUICK, "--eps", "1/1000"]) == 0
    attacked = Assessment.load(run / "assessment.json")
    head, row = re.findall(r"^ *(?:threat|linf).*$", capsys.readouterr().out, re.MULTILINE)
    assert "attacked" in head and f"{100 * attacked.worst_case:.1f}%" in row
    assert main(["evaluate", str(run), *QUICK, "--attacks", "fgsm", "--eps", "1/1000", "1/100"]) == 0
    shown = capsys.readouterr().out
    certificate = Certificate.load(run / "certificate.json")
    assert f"certified, crown      {100 * certificate.accuracy:.1f}%" in re.sub(r" {6,}", " " * 6, shown)
    # Again: nothing is overwritten, and the second takes the next name.
    before = (run / "certificate.json").read_text()
    assert main(["certify", str(run), *QUICK, "--eps", "1/1000", "--method", "ibp"]) == 0
    assert (run / "certificate.json").read_text() == before
    assert Certificate.load(run / "certificate-2.json").method == "ibp"
    assert main(["certify", str(run), *QUICK, "--output", str(run / "certificate.json"), "--eps", "0.1"]) == 2
    assert "certificate.json exists already; choose another name" in capsys.readouterr().err


def test_a_contradiction_on_record_fails_the_command(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["certify", str(run), *QUICK, "--eps", "1/100000", "--output", str(tmp_path / "found.json")]
    assert main(["evaluate", str(run), *QUICK, "--attacks", "fgsm", "--eps", "1/200000"]) == 0
    newest = max(run.glob("assessment*.json"), key=lambda path: path.stat().st_mtime_ns)
    found = Assessment.load(newest)
    (attack,) = found.attacks
    lost = replace(
        found,
        attacks=(replace(attack, robust=torch.zeros_like(attack.robust), predictions=None),),
    )
    newest.unlink()
    lost.save(newest)
    try:
        assert main(words) == 2
    finally:
        newest.unlink()
    error = capsys.readouterr().err
    assert "crown contradicts an attack: image" in error and "under FGSM at linf 5e-06" in error
    assert error.count("\n") == 1 and not (tmp_path / "found.json").exists()


def test_models_from_elsewhere_are_certified(
    elsewhere: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*elsewhere, "--examples", "20", "--eps", "1/255", "--method", "crown:steps=2"]) == 0
    found = Certificate.load("certificate.json")
    assert found.model == "certified_net:build w.safetensors" and found.options["steps"] == 2
    noise = ["--norm", "l2", "--method", "smoothing:sigma=0.25,draws=50"]
    assert main([*elsewhere, "--examples", "6", "--eps", "0.1", "0.2", *noise]) == 0
    small, large = (Certificate.load(f"certificate-eps{eps}.json") for eps in ("0.1", "0.2"))
    assert small.threat == L2("0.1") and not (large.certified & ~small.certified).any()
    assert "the smoothed model, not the model itself" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--method", "crwn"], "unknown method 'crwn' (method.name); did you mean 'crown'?"),
        (["--method", "crown:stps=1"], "unknown option of crown 'stps'"),
        (
            ["--method", "ibp:precision=half"],
            "method.precision: got 'half', expected one of float32, float64",
        ),
        (["--method", "smoothing"], "smoothing: got linf 0.1, expected an l2 threat"),
        (["--examples", "0"], "--examples: got 0, expected at least 1"),
        (["--eps", "minus"], "threat.eps"),
        (["--eps", "0.1", "1/10"], "expected different radii of one norm (flag --eps)"),
        (["--model", "certified_net:stepped"], "torch's `sign`, for which there is no bound in '1'"),
    ],
)
def test_mistakes_get_one_line(
    elsewhere: list[str], flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*elsewhere, "--eps", "0.1", "--examples", "4", *flags]
    if "certified_net:stepped" in flags:
        place = words.index("--weights")
        del words[place : place + 2]
    assert main(words) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert len(lines) == 1 and message in lines[0], lines
    assert not list(Path().glob("certificate*"))


@pytest.mark.slow
def test_two_processes_certify_what_one_certifies(elsewhere: list[str], tmp_path: Path) -> None:
    words = [*elsewhere, "--examples", "15", "--eps", "1/255", "4/255", "--output"]
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "soar"]
    subprocess.run([*two, *words, str(tmp_path / "two.json")], check=True, capture_output=True)
    assert main([*words, str(tmp_path / "one.json")]) == 0
    for eps in ("1_255", "4_255"):
        one, both = (Certificate.load(tmp_path / f"{name}-eps{eps}.json") for name in ("one", "two"))
        assert torch.equal(one.index, both.index) and torch.equal(one.certified, both.certified)


@pytest.mark.slow
def test_a_killed_certification_goes_on_with_the_same_command(run: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "soar", "certify", str(run), "--threads", "1", "--examples", "60"]
    words += ["--method", "crown:steps=2", "--eps", "1/10000", "1/1000", "--batch-size", "1"]
    words += ["--output", str(tmp_path / "a.json")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    journal = tmp_path / "a-eps1_10000.partial.rank0.jsonl"
    while not journal.exists() or journal.read_text().count("\n") < 4:
        time.sleep(0.02)
        assert process.poll() is None, process.communicate()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert not list(tmp_path.glob("*.json"))
    known = journal.read_text().count("\n")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not journal.exists() and len(list(tmp_path.glob("a-eps*.json"))) == 2
    first = next(line for line in done.stderr.splitlines() if line.startswith("crown linf 0.0001"))
    assert int(first.split()[3].split("/")[0]) >= known


def test_an_interrupted_certification_goes_on(
    elsewhere: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*elsewhere, "--examples", "100", "--eps", "1/2550", "1/255", "--output", "found.json"]
    words += ["--batch-size", "1"]
    certified = Bounding.certified
    calls: list[int] = []

    def interrupted(*given: Any) -> torch.Tensor:
        calls.append(len(given[2]))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return certified(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Bounding, "certified", interrupted)
        assert main(words) == 130
    assert "interrupted; the same command goes on from here" in capsys.readouterr().err
    (journal,) = Path().glob("found*.partial.*")
    assert journal.read_text().count("\n") == 2 and not list(Path().glob("*.json"))
    rows: list[int] = []

    def counted(*given: Any) -> torch.Tensor:
        rows.append(len(given[2]))
        return certified(*given)

    monkeypatch.setattr(Bounding, "certified", counted)
    assert main(words) == 0
    small, large = (Certificate.load(f"found-eps{eps}.json") for eps in ("1_2550", "1_255"))
    assert sum(rows) == int(small.correct.sum()) - 2 + int(small.certified.sum())
    assert not list(Path().glob("*.partial*")) and len(large) == 100


def test_an_attack_that_fools_a_certified_image_fails_evaluate_too(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", str(run), *QUICK, "--eps", "0.3", "--method", "ibp"]) == 0
    place = max(run.glob("certificate*.json"), key=lambda path: path.stat().st_mtime_ns)
    found = Certificate.load(place)
    place.unlink()
    replace(found, certified=found.correct).save(place)
    words = ["evaluate", str(run), *QUICK, "--attacks", "fgsm", "--eps", "0.3"]
    try:
        assert main([*words, "--output", str(tmp_path / "found.json")]) == 2
    finally:
        place.unlink()
    error = capsys.readouterr().err
    assert "ibp contradicts an attack: image" in error and "under FGSM at linf 0.3" in error
    assert Assessment.load(tmp_path / "found.json").worst_case < found.clean_accuracy, "it was saved before"
