"""Conditions under which the documentation is tried: few images, few steps, all in one process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from soar import recipes
from soar.attacks import ATTACKS
from soar.data import Dataset, loading
from soar.experiments.local import Local
from soar.experiments.worker import perform
from soar.objectives import OBJECTIVES
from soar.recipes import Recipe
from tests.docs import stand_ins
from tests.docs.running import ROOT
from tests.experiments.made import Pretender

TRAIN, HELD_OUT, TEST = 64, 10, 12


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in with the files of the documentation, where data and training runs are cut short."""
    for folder in ("docs", "benchmarks/results"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "load", _few_images(loading.load))
    monkeypatch.setattr(recipes, "load", _few_steps(recipes.load))
    stand_ins.provide(monkeypatch)
    executor = Pretender(lambda job: perform(job, lambda _: None))
    monkeypatch.setattr(Local, "run", lambda _, jobs, listen: executor.run(jobs, listen))
    # A page may register its own; the next test knows nothing of that.
    for registry in (ATTACKS, OBJECTIVES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    return tmp_path


def _few_images(load: Any) -> Any:
    def load_few(name: str, **options: Any) -> Dataset:
        data: Dataset = load(name, **options)
        return replace(
            data,
            train=data.train.first(TRAIN),
            validation=data.validation.first(HELD_OUT),
            test=data.test.first(TEST),
        )

    return load_few


def _few_steps(load: Any) -> Any:
    def load_short(name: str | Path, flags: Any = ()) -> Recipe:
        wanted: Recipe = load(name, flags)
        if Path(name).name == "recipe.toml":
            # What a run was trained with stays as it is; it was shortened when the run began.
            return wanted
        shorter = ["--max_steps", "2", "--batch_size", "16", "--accumulation_steps", "1"]
        shorter += ["--validation.steps", "1", "--guards.overfitting", "off"]
        if ":" not in wanted.model["name"]:
            shorter += ["--model.width", "4"]
        if wanted.data.name in ("cifar10", "svhn"):
            # They cannot be fetched here, and the networks of their recipes know the mean of their colors.
            shorter += ["--data", "fashion-mnist-sample", "--model.input_normalization", "none"]
        short: Recipe = load(name, [*flags, *shorter])
        return short

    return load_short
