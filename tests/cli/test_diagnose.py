from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from soar.cli.diagnose import neighbors
from soar.cli.main import main, make_parser
from soar.cli.target import target
from soar.evaluation import Diagnosis
from soar.evaluation.diagnose import CHECKS
from soar.threat import Linf
from tests.cli.tiny import TINY

FEW = ["--examples", "12", "--threads", "1", "--quiet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diagnose") / "run"
    assert main(["train", "demo-robust", *TINY, "--max_steps", "40", "--output", str(path)]) == 0
    return path


def test_every_check_is_made_printed_and_kept(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(run), "--source", str(run), "--features", "blocks.1", *FEW]) == 0
    found = Diagnosis.load(run / "diagnosis.json")
    (climb,) = (one for one in found.checks if one.check == "climb")
    assert climb.numbers.get("features") == "the output of 'blocks.1'"
    assert {one.check for one in found.checks} == set(CHECKS) and found.is_complete
    assert (found.examples, found.threat, found.data) == (12, Linf("0.1"), "fashion-mnist-sample (test)")
    shown = " ".join(capsys.readouterr().out.split())
    assert f"verdict: {found.verdict}" in shown and str(run / "diagnosis.json") in shown.replace(" ", "")
    assert all(one.title in shown for one in found.checks)
    assert not list(run.glob("*.partial*"))


def test_a_model_that_hides_its_gradients_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
import torch
from torch.nn import Linear, Module
class Loud(Module):
    def __init__(self):
        super().__init__()
        self.linear = Linear(784, 10)
    def forward(self, x):
        return 1e5 * self.linear(x.flatten(1))
def build():
    torch.manual_seed(0)
    return Loud()
"""
    (tmp_path / "loud_net.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ["--model", "loud_net:build", "--data", "fashion-mnist-sample", "--eps", "0.02"]
    assert main(["diagnose", *words, "--examples", "150", "--threads", "1", "--quiet"]) == 0
    found = Diagnosis.load("diagnosis.json")
    assert found.verdict == "masked" and found.against[0].finding == "masked"
    shown = capsys.readouterr()
    assert "verdict: masked" in shown.out
    assert "soar evaluate --model loud_net:build --data" in " ".join(shown.out.split())
    assert "RUN" not in shown.out
    text = "soar: warning: no --weights: loud_net:build keeps the weights that it is built with\n"
    assert shown.err == text
    assert main(["evaluate", *words, "--examples", "150", "--threads", "1", "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("inconclusive: ")]
    # The adaptive attack climbs margins, so it is not known what the cross-entropy would have missed.
    assert line.endswith(
        "; run all checks: soar diagnose --model loud_net:build --data fashion-mnist-sample --eps 0.02"
    )


def test_runs_beside_this_one_are_offered_as_sources(run: Path, tmp_path: Path) -> None:
    for name in ("mine", "other net", "third"):
        shutil.copytree(run, tmp_path / name)
    (tmp_path / "elsewhere").mkdir()
    recipe = tmp_path / "third" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("fashion-mnist-sample", "cifar10"))
    words = [str(tmp_path / "mine"), "--examples", "2"]
    for more, expected in (
        ([], [f"'{tmp_path / 'other net'}'"]),
        (["--source", str(tmp_path / "other net")], []),
    ):
        arguments = make_parser().parse_args(["diagnose", *words, *more])
        assert neighbors(arguments, target(arguments)) == expected


def test_an_interrupted_diagnosis_goes_on(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = tmp_path / "found.json"
    words = ["diagnose", str(run), *FEW, "--output", str(output)]

    def interrupted(_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(CHECKS, "black box", (CHECKS["black box"][0], interrupted))
        assert main(words) == 130
    kept = list(tmp_path.glob("*.partial*"))
    assert kept and not output.exists()
    assert main(words) == 0
    assert output.exists() and not list(tmp_path.glob("*.partial*"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--examples", "0"], "--examples: got 0, expected at least 1"),
        (["--source", "nowhere"], "nowhere: not a run folder"),
        (["--eps", "minus"], "threat.eps"),
        (["--features", "blocks.9"], "unknown module 'blocks.9' (features); did you mean 'blocks.3'?"),
        (["--threads", "0"], "--threads: got 0"),
    ],
)
def test_mistakes_get_one_line(
    run: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(run), *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_an_earlier_diagnosis_is_not_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "diagnosis.json").touch()
    assert main(["diagnose", str(run), "--output", str(run / "diagnosis.json"), *FEW]) == 2
    assert "exists already; choose another name" in capsys.readouterr().err
