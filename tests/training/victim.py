"""A small training of a real objective on real data, run by `test_kill` in a process of its own.

The process may be made slow at one place, so that it can be killed there.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

import soar.data
from soar import attacks, models
from soar.data import Augmentation, Dataset
from soar.objectives import Adversarial
from soar.threat import Linf
from soar.training import checkpoints, updates
from soar.training.settings import TrainingSettings, ValidationSettings
from soar.training.trainer import Trainer

OPTIONS: dict[str, Any] = globals().get("OPTIONS", {})


def delay(owner: Any, name: str, seconds: float) -> None:
    original = getattr(owner, name)

    def slowly(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        time.sleep(seconds)
        return result

    setattr(owner, name, slowly)


def train(*, run: str, resume: bool, slow: str) -> None:
    torch.set_num_threads(1)
    if slow == "step":
        delay(updates.Updates, "apply", 0.02)
    elif slow == "write":
        delay(checkpoints, "_write", 0.2)
    elif slow == "pointer":
        delay(checkpoints, "save", 0.3)
    elif slow == "attack":
        delay(attacks, "run", 0.3)
    data = soar.data.load("fashion-mnist-sample")
    data = Dataset(
        data.name, data.classes, data.shape, data.train.first(64), data.validation.first(16), data.test
    )
    model = models.build("cnn6", seed=1, image_shape=data.shape, options={"width": 4})
    trainer = Trainer(
        Adversarial(model, Linf("0.1"), steps=2),
        data,
        TrainingSettings(epochs=2, batch_size=8, lr=0.05, ema_decay=0.9, save_steps=3, eps_warmup_epochs=1.0),
        ValidationSettings(steps=2),
        run=Path(run),
        augmentation=Augmentation(crop=2, flip=True),
        resume=resume,
        progress="quiet",
    )
    result = trainer.fit()
    summary = {"status": result.status, "reason": result.reason, "steps": result.steps}
    (Path(run) / "result.json").write_text(json.dumps(summary))


if OPTIONS:
    train(**OPTIONS)
