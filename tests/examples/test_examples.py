"""Every example runs, and what it prints makes sense."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from soar import Assessment
from soar.cli.main import main
from tests.examples.running import EXAMPLES, ROOT, run, shares, source

FEW = ["--examples", "30"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_of_them_are_tried_and_shown() -> None:
    names = ["custom_attack", "custom_objective", "evaluate_elsewhere", "fine_tune_timm", "plain_loop"]
    assert names == EXAMPLES
    page = (ROOT / "docs" / "examples.md").read_text()
    for name in names:
        command = f"python examples/{name}.py"
        assert f"    {command}\n" in source(name).read_text().split('"""')[1], (
            "the docstring says how to run it"
        )
        assert f"{command}\n" in page, "the page shows how to run it"
        assert f"](../examples/{name}.py)" in page, "the page leads to it"
        printed = (ROOT / "docs" / "results" / "examples" / f"{name}.txt").read_text()
        assert f"```text\n{printed}```" in page, "the page shows what it printed"


def test_plain_loop_trains_both_ways(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("plain_loop", ["--epochs", "1", "--train-examples", "640", *FEW], monkeypatch)
    heading, plain, robust = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "training"
    assert plain.startswith("cross-entropy") and robust.startswith("SOAR")
    for line in (plain, robust):
        clean, worst, low, high = shares(line)
        assert worst <= clean and clean > 0.1, "it has learned something"
        assert low <= worst <= high


def test_evaluate_elsewhere_agrees_with_the_command_that_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("evaluate_elsewhere", ["--train-examples", "1920", "--eps", "0.01", "0.1", *FEW], monkeypatch)
    smaller, larger, command = capsys.readouterr().out.splitlines()
    assert smaller.startswith("linf 0.01:") and larger.startswith("linf 0.1:")
    clean, *_, worst, _, _ = shares(larger)
    assert shares(smaller)[0] == clean >= shares(smaller)[-3] >= worst, "more room, more success"

    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    words = shlex.split(command)
    assert words[0] == "soar"
    assert main([*words[1:], *FEW, "--quiet", "--threads", "1", "--output", "found.json"]) == 0
    found = Assessment.load(tmp_path / "found.json")
    assert round(found.accuracy("clean"), 3) == clean and round(found.worst_case, 3) == worst


def test_custom_objective_trains_by_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = ["--max_steps", "5", "--model.width", "4", "--validation.examples", "10", "--threads", "1"]
    flags = ["--weights", "0", "0.5", "--output", "runs", *FEW, *tiny]
    run("custom_objective", flags, monkeypatch)
    promise, *rows = capsys.readouterr().out.splitlines()
    assert promise == "Jacobian keeps the contract of an objective"
    assert [row.split(":")[0] for row in rows] == ["weight 0", "weight 0.5"]
    assert 'name = "jacobian"' in (tmp_path / "runs" / "jacobian-0.5" / "recipe.toml").read_text()


def test_custom_objective_passes_on_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run("custom_objective", ["--weights", "-1", "--output", "runs"], monkeypatch)
    assert end.value.code == 2
    assert "objective.weight: got -1.0, expected at least 0" in capsys.readouterr().err


def test_custom_attack_stands_beside_pgd(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("custom_attack", ["--steps", "2", "4", "--batches", "10", *FEW], monkeypatch)
    promise, _, *rows = capsys.readouterr().out.splitlines()
    assert promise == "Momentum keeps the contract of an attack"
    names = ["clean", "PGD-2", "Momentum-2", "PGD-4", "Momentum-4", "worst case"]
    assert [row[:14].strip() for row in rows] == names
    accuracies = [shares(row)[0] for row in rows]
    assert max(accuracies) == accuracies[0] and min(accuracies) == accuracies[-1]
