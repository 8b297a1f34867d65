"""Damaged files of a run: a command gives the numbers that it gives without the damage, or refuses."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from soar.cli.main import main
from soar.evaluation import Assessment
from tests.cli.obstacles import DAMAGES
from tests.cli.tiny import TINY

FEW = ["--examples", "12", "--threads", "1", "--quiet"]
FILES = (
    "checkpoints/best",
    *(
        f"checkpoints/step-000000{step}/{name}"
        for step in (30, 60)
        for name in ("model.safetensors", "state.json")
    ),
    "checkpoints/step-00000060/trainer.pt",
    "found.partial.rank0.jsonl",
    "metrics.jsonl",
    "environment.json",
    "outcome.json",
)
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 9))]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with an evaluation that was interrupted after its last image."""
    path = tmp_path_factory.mktemp("damage") / "run"
    assert (
        main(
            [
                "train",
                "demo-robust",
                *TINY,
                "--max_steps",
                "60",
                "--training.save_steps",
                "30",
                "--output",
                str(path),
            ]
        )
        == 0
    )
    save = Assessment.save

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Assessment, "save", interrupted)
        assert main(evaluation(path)) == 130
    assert Assessment.save is save and (path / "found.partial.rank0.jsonl").exists()
    assert all((path / name).is_file() for name in FILES)
    return path


def evaluation(run: Path) -> list[str]:
    words = ["evaluate", str(run), *FEW, "--attacks", "pgd:steps=3", "square:queries=5"]
    return [*words, "--output", str(run / "found.json")]


@pytest.fixture(scope="module")
def truth(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Assessment:
    return evaluated(copied(original, tmp_path_factory.mktemp("truth")))


def copied(original: Path, folder: Path) -> Path:
    return Path(shutil.copytree(original, folder / "run"))


def evaluated(run: Path) -> Assessment:
    assert main(evaluation(run)) == 0
    return Assessment.load(run / "found.json")


def numbers(found: Assessment) -> tuple[Any, ...]:
    """What an assessment says, but for times and places."""
    weights = None if found.weights is None else (found.weights.sha256, found.weights.step)
    outcomes = [(one.label, one.robust.tolist(), one.forward.tolist()) for one in found.attacks]
    return weights, found.correct.tolist(), outcomes


@pytest.mark.parametrize("round_", ROUNDS)
@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_an_evaluation_is_right_or_refused(
    name: str,
    kind: str,
    round_: int,
    original: Path,
    truth: Assessment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = copied(original, tmp_path)
    DAMAGES[kind](run / name, random.Random(zlib.crc32(f"{name} {kind} {round_}".encode())))
    capsys.readouterr()
    code = main(evaluation(run))
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("soar: warning")]
    if code:
        assert code == 2 and len(lines) == 1 and lines[0].startswith("soar: ")
        assert "best" in name or "step-00000060" in name or best_step(original) in name
        return
    assert not lines
    assert numbers(Assessment.load(run / "found.json")) == numbers(truth)


def best_step(run: Path) -> str:
    return (run / "checkpoints" / "best").read_text().strip()


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("name", [name for name in FILES if "metrics" not in name])
def test_a_resumed_run_is_whole_again(
    name: str, kind: str, original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(original, tmp_path)
    DAMAGES[kind](run / name, random.Random(zlib.crc32(f"resume {name} {kind}".encode())))
    capsys.readouterr()
    code = main(["train", "--resume", str(run), "--threads", "1", "--quiet"])
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("soar: warning")]
    assert code == 0 and not lines
    newest = "checkpoints/step-00000060/"
    for file in ("checkpoints/best", f"{newest}model.safetensors", f"{newest}trainer.pt"):
        assert (run / file).read_bytes() == (original / file).read_bytes(), file
    assert json.loads((run / "outcome.json").read_text())["status"] == "finished"
