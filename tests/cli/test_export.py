from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest
import torch

from soar import runs
from soar.attacks import PGD
from soar.attacks.attack import Planned
from soar.cli.main import main
from soar.threat import Linf
from soar.weights import Weights
from tests.cli.tiny import TINY
from tests.export.test_robustbench import PAPER, RICE, measured


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run"
    assert main(["train", "demo-robust", *TINY, "--output", str(path)]) == 0
    return path


def test_a_run_is_exported_and_answers_the_same(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = runs.find(run)
    data = opened.data()
    images = data.test.images[:20] / 255
    wanted = opened.trained_model(data).eval()(images).detach()
    assert main(["export", str(run), "--format", "torchscript", "-o", "net.pt"]) == 0
    assert (
        "saved net.pt: same predictions for batches of 8, 1, 17; logits differ by" in capsys.readouterr().out
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.load(folder / "net.pt")
    assert torch.allclose(script(images), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["onnx", "torch-export"])
def test_the_other_formats_are_written_too(kind: str, run: Path, folder: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("onnxscript")
    assert main(["export", str(run), "--format", kind, "--output", "net"]) == 0
    assert (folder / "net").is_file()


def test_a_model_from_elsewhere_is_exported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = "from torch.nn import *\ndef build():\n    return Sequential(Flatten(), Linear(784, 10))\n"
    (folder / "exported_net.py").write_text(source)
    torch.save({"1.weight": torch.eye(10, 784), "1.bias": torch.zeros(10)}, folder / "w.pt")
    words = ["export", "--model", "exported_net:build", "--weights", "w.pt"]
    assert main([*words, "--format", "torchscript", "-o", "net.pt"]) == 2
    assert "--model needs --data too" in capsys.readouterr().err
    words += ["--data", "fashion-mnist-sample"]
    assert main([*words, "--format", "torchscript", "-o", "net.pt"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "onnx", "-o", "x"], "which model? Give a run folder"),
        (["RUN", "--format", "onnx", "-o", "taken"], "--output: taken exists already; choose another name"),
        (["RUN", "--weights", "w", "--format", "onnx", "-o", "x"], "--weights goes with --model"),
        (["RUN", "--data", "d", "--format", "onnx", "-o", "x"], "--data goes with --model"),
        (["RUN", "--model", "a:b", "--format", "onnx", "-o", "x"], "got both the run"),
        (["nowhere", "--format", "onnx", "-o", "x"], "nowhere: not a run folder"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], said: str, run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "taken").touch()
    assert main(["export", *(str(run) if word == "RUN" else word for word in words)]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1


def test_a_run_knows_its_architecture_and_its_largest_assessment(
    run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(run), "--format", "robustbench", "-o", "entry.json"]
    assert main(words) == 2
    assert "has no assessment of its weights by AutoAttack" in capsys.readouterr().err
    own = runs.find(run).weights()
    made = {
        "assessment": measured(1_000, weights=own),
        "assessment-2": measured(2_000, weights=own),
        "assessment-3": measured(3_000, weights=Weights(own.file, 64 * "a", None)),
        "assessment-4": measured(4_000, weights=own, plan=[Planned(PGD(steps=20))]),
        "assessment-5": measured(5_000, weights=own, threat=Linf("0.25")),
    }
    for name, one in made.items():
        one.save(run / f"{name}.json")
    assert main(words) == 0
    stored = json.loads((folder / "entry.json").read_text())
    assert stored["architecture"].startswith("resnet10:width=4,") and stored["additional_data"] is False
    assert "2,000 of 10,000" in stored["footnote"]


def test_an_assessment_of_autoattack_is_written_with_what_flags_say(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured().save(folder / "assessment.json")
    fields = [f"{name}={'false' if value is False else value}" for name, value in PAPER.items()]
    words = ["export", "assessment.json", "--format", "robustbench", "-o", "entry.json"]
    assert main([*words, "--field", *fields]) == 0
    assert json.loads((folder / "entry.json").read_text()) == json.loads(RICE)
    assert capsys.readouterr().out.startswith("saved entry.json: 85.34% clean, 53.42% under AutoAttack")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["assessment.json", "--field", "venue"], "--field: got 'venue', expected NAME=VALUE"),
        (["assessment.json", "--field", "nam=A"], "unknown field 'nam'"),
        (["assessment.json", "--field", "additional_data=no"], "got additional_data=no, expected true or"),
        (["--model", "a:b"], "--model does not go with --format robustbench"),
        (["--data", "cifar10"], "--data does not go with --format robustbench"),
        ([], "which assessment? Give a run folder or a file"),
        (["nowhere"], "nowhere: not a run folder"),
        (["nowhere", "--format", "onnx", "--field", "venue=x"], "--field goes with --format robustbench"),
    ],
)
def test_mistakes_in_an_entry_are_told_in_one_line(
    words: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(1_000).save(folder / "assessment.json")
    assert main(["export", "--format", "robustbench", "-o", "entry.json", *words]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1
    assert not (folder / "entry.json").exists()
