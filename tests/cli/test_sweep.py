from __future__ import annotations

import json
from pathlib import Path

import pytest

from soar.cli.main import main
from soar.experiments.worker import perform
from tests.experiments.made import Pretender

FIELDS = [
    *(
        "--model.width",
        "4",
        "--max_steps",
        "3",
        "--batch_size",
        "16",
        "--epochs",
        "1",
        "--data.validation",
        "50",
    ),
    *("--validation.examples", "10", "--validation.steps", "1", "--guards.overfitting", "off"),
]


def test_a_sweep_trains_selects_and_keeps_everything(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sweep", "demo-robust", "--grid", "objective.steps=1,2", "--seeds", "2", *FIELDS]
    assert main([*words, "--plan"]) == 0
    planned = capsys.readouterr().out
    assert "to train       4 networks" in planned and "objective.steps=2, seed 1" in planned
    assert not (folder / "runs").exists(), "a plan leaves nothing behind"
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "selected on validation: fields objective.steps=" in shown.out
    assert "train objective.steps=2, seed 1: done" in shown.err
    (kept,) = (folder / "runs" / "cache" / "sweeps").iterdir()
    assert {path.name for path in kept.iterdir()} == {"sweep.json", "sweep.txt"}
    stored = json.loads((kept / "sweep.json").read_text())
    assert [len(row["robust"]["values"]) for row in stored["rows"].values()] == [2, 2]
    for run in (run for of_row in stored["runs"].values() for run in of_row):
        assert (folder / run / "recipe.toml").exists()

    # A second call trains nothing, and a larger grid only what is new.
    before = list(here.done)
    assert main([*words, "--quiet"]) == 0
    assert here.done == before
    words[3] = "objective.steps=1,2,3"
    assert main([*words, "--output", "mine"]) == 0
    assert len(here.done) == len(before) + 2 and (folder / "mine" / "sweep.json").exists()


def test_a_training_that_fails_does_not_stop_the_others(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(job: object) -> None:
        if "steps=2" in job.title:  # type: ignore[attr-defined]
            raise ValueError("no room left")
        perform(job, lambda _: None)  # type: ignore[arg-type]

    here.work = work
    assert main(["sweep", "demo-robust", "--grid", "objective.steps=2,1", *FIELDS]) == 1
    shown = capsys.readouterr().out
    assert "failed: no room left" in shown and "selected on validation: fields objective.steps=1" in shown


def test_each_training_may_be_shared_by_processes(folder: Path, here: Pretender) -> None:
    shared: list[int] = []
    here.work = lambda job: shared.append(job.payload["processes"])
    main(["sweep", "demo-robust", "--grid", "objective.steps=1,2", *FIELDS, "--processes", "8", "--quiet"])
    assert shared == [8, 8]


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "--grid is missing"),
        (["--grid", "objective.betaa=1"], "unknown option of Adversarial 'betaa'"),
        (["--grid", "objective.steps="], "none empty"),
        (["--grid", "objective.steps=many"], "objective.steps: got 'many'"),
        (["--grid", "epoch=1"], "did you mean '--epochs'"),
        (["--grid", "lr=0.1", "--seeds", "0"], "--seeds: got 0, expected at least 1"),
        (["--grid", "lr=0.1", "--jobs", "0"], "--jobs: got 0, expected at least 1"),
        (["--grid", "lr=0.1", "--processes", "0"], "--processes: got 0, expected at least 1"),
        (["--grid", "lr=0.1", "--epoch", "1"], "did you mean '--epochs'"),
        (["--grid", "lr=0.1", "--device", "gpu"], "unknown device 'gpu'"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "demo-robust", *words]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_an_unknown_recipe_gets_the_nearest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "demo-robst", "--grid", "lr=0.1"]) == 2
    assert "did you mean 'demo-robust'?" in capsys.readouterr().err
