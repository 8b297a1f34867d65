from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from torch import nn

from soar import recipes
from soar.attacks import ATTACKS
from soar.cli.listing import KINDS
from soar.cli.main import main
from soar.data import DATASETS
from soar.evaluation.methods import METHODS
from soar.evaluation.suites import SUITES
from soar.experiments.loading import studies, tables
from soar.models import MODELS
from soar.objectives import OBJECTIVES, Adversarial, Objective
from soar.registry import Entry, Registry
from soar.threat import Threat


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_listed_with_a_description(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    registries: dict[str, Registry[Any]] = {
        "objectives": OBJECTIVES,
        "attacks": ATTACKS,
        "suites": SUITES,
        "methods": METHODS,
        "models": MODELS,
        "datasets": DATASETS,
    }
    files = {"recipes": recipes.names(), "studies": studies(), "tables": list(tables())}
    expected = files[kind] if kind in files else [entry.name for entry in registries[kind]]
    expected += ["timm:NAME", "hf:FOLDER", "robustbench:NAME"] if kind == "models" else []
    assert [line.split()[0] for line in lines] == expected
    assert all(len(line.split(maxsplit=1)[1]) > 15 for line in lines)


def test_objectives_are_listed_with_their_cost(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "objectives"])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.strip() == "cost of an update: its operations, counted, in those of a PGD-10 update"
    costs = {line.split()[0]: line.split()[1] for line in lines if not line.startswith(" ")}
    # One forward and two backward passes, of 23; see tests/cost/test_counting.py.
    assert (costs["standard"], costs["adversarial"], costs["soar"]) == ("0.13", "1.00", "0.52")
    assert all(0 < float(cost) < 10 for cost in costs.values())


def test_an_objective_with_required_options_is_listed_without_a_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(model: nn.Module, threat: Threat, *, steps: int, seed: int = 0) -> Objective:
        """An objective whose number of steps has to be given."""
        return Adversarial(model, threat, steps=steps, seed=seed)

    monkeypatch.setitem(OBJECTIVES._entries, "own", Entry("own", build, str(build.__doc__)))
    assert main(["list", "objectives"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index(f"{'own':<27}   -  An objective whose number of steps has to be given.")
    assert lines[place + 1].strip() == "steps (required)"


def test_options_are_listed_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "objectives"])
    assert "steps=10, step_size=null, random_start=true, loss=ce" in capsys.readouterr().out


def test_options_without_a_default_are_told_to_be_required() -> None:
    # In a process of its own, where nothing but the command has registered an attack.
    command = [sys.executable, "-m", "soar", "list", "attacks"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "source (required), steps=20" in listed
