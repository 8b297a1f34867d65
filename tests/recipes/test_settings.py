from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soar import recipes
from soar.errors import UserError
from soar.options import convert
from soar.recipes.recipe import write
from soar.recipes.settings import GuardSettings, TrainingSettings, ValidationSettings, checked


def test_a_recipe_section_becomes_settings() -> None:
    table = {"epochs": 3, "batch_size": "64", "lr": 0.1, "schedule": "step", "milestones": [1, 2.5]}
    settings = convert(table, TrainingSettings, "training")
    assert settings.batch_size == 64
    assert settings.milestones == (1.0, 2.5)
    assert settings.momentum == 0.9
    assert convert({}, ValidationSettings, "validation").select == "robust"
    assert convert({}, GuardSettings, "guards").overfitting == "stop"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, r"training.epochs: got 0, expected `int` >= 1 \(flag --training.epochs\)"),
        ({"minutes": 0.0}, r"training.minutes: got 0.0, expected `float` > 0.0"),
        ({"minutes": math.inf}, r"training.minutes: got inf, expected a finite number"),
        ({"lr": -1.0}, r"training.lr: got -1.0, expected `float` > 0.0"),
        ({"momentum": 1.0}, r"training.momentum: got 1.0, expected `float` < 1.0"),
        ({"schedule": "cosin"}, "training.schedule: got 'cosin', expected one of constant, step"),
        ({"schedule": "step"}, "training.milestones is empty; give the epochs"),
        ({"milestones": (1.0,)}, "only the schedule 'step' uses them"),
        ({"momentum": 0.0, "nesterov": True}, "training.nesterov needs training.momentum above 0"),
        ({"warmup_fraction": 1.0}, r"training.warmup_fraction: got 1.0, expected `float` < 1.0"),
        (
            {"warmup_epochs": 1.0, "warmup_fraction": 0.2},
            r"training.warmup_fraction: got 0.2 together with training.warmup_epochs 1.0, expected only one",
        ),
        ({"ema_decay": 1.5}, r"training.ema_decay: got 1.5"),
        ({"decay": 1}, r"training.decay: got 1, expected"),
        ({"decay": (0.1,)}, "training.decay: got 1 factors for 0 milestones"),
        (
            {"schedule": "step", "milestones": (1.0, 2.0), "decay": (0.5, 0.5, 0.1)},
            r"training.decay: got 3 factors for 2 milestones, expected one for each, or a single number",
        ),
        (
            {"schedule": "step", "milestones": (1.0, 2.0), "decay": (0.5, 1.5)},
            r"training.decay: got 1.5, expected `float` < 1.0 \(flag --training.decay\)",
        ),
        ({"label_smoothing": 1.0}, r"training.label_smoothing: got 1.0, expected `float` < 1.0"),
        ({"label_smoothing": -0.1}, r"training.label_smoothing: got -0.1, expected `float` >= 0.0"),
        ({"weight_perturbation": -0.01}, r"training.weight_perturbation: got -0.01, expected `float` >= 0.0"),
        ({"weight_perturbation_after": -1.0}, r"training.weight_perturbation_after: got -1.0, expected"),
    ],
)
def test_settings_made_in_python_have_the_same_limits(changes: Any, message: str) -> None:
    settings = TrainingSettings(**({"epochs": 1, "batch_size": 8, "lr": 0.1} | changes))
    with pytest.raises(UserError, match=message):
        checked(settings, "training")


def test_good_settings_come_back_unchanged() -> None:
    settings = TrainingSettings(
        epochs=2, batch_size=8, lr=0.1, schedule="step", milestones=(1.0, 1.5), ema_decay=0.9
    )
    assert checked(settings, "training") == settings


@pytest.mark.parametrize("decay", [0.3, (0.3, 0.1)])
def test_decay_is_one_factor_or_one_a_milestone(decay: float | tuple[float, ...]) -> None:
    settings = TrainingSettings(
        epochs=2, batch_size=8, lr=0.1, schedule="step", milestones=(1.0, 1.5), decay=decay
    )
    assert checked(settings, "training") == settings
    table = {"epochs": 2, "batch_size": 8, "lr": 0.1, "schedule": "step", "milestones": [1, 1.5]}
    given = decay if isinstance(decay, float) else list(decay)
    assert convert(table | {"decay": given}, TrainingSettings, "training") == settings


@pytest.mark.parametrize(
    ("text", "decay"), [("0.3", 0.3), ("[0.3, 0.1]", (0.3, 0.1)), ("0.3,0.1", (0.3, 0.1))]
)
def test_decay_can_be_a_flag(text: str, decay: float | tuple[float, ...], tmp_path: Path) -> None:
    flags = ["--schedule", "step", "--milestones", "1,2", "--training.decay", text]
    recipe = recipes.load("demo-robust", flags)
    assert recipe.training.decay == decay
    write(recipe, tmp_path / "recipe.toml")
    assert recipes.load(tmp_path / "recipe.toml") == recipe


def test_factors_of_a_flag_must_fit_the_milestones() -> None:
    flags = ["--schedule", "step", "--milestones", "1,2", "--training.decay", "[0.3]"]
    with pytest.raises(UserError, match=r"training\.decay: got 1 factors for 2 milestones"):
        recipes.load("demo-robust", flags)


def test_settings_need_no_torch() -> None:
    code = "import sys, soar.recipes.settings; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
