"""A second source of examples in training: from its recipe to the bits of a resumed run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from soar import recipes, runs
from soar.cli.main import main
from soar.data import Augmentation, Extra, Split, load
from soar.errors import UserError
from soar.objectives import MMA, PGI, Objective
from soar.recipes.settings import GuardSettings, ValidationSettings
from soar.threat import Linf
from soar.training.extra import load_extra
from soar.training.trainer import Trainer
from tests.cli.tiny import TINY
from tests.training import small

VARIED = Augmentation(flip=True, cutmix=0.5, erasing=0.5)


def extra(share: float = 0.5) -> Extra:
    found = small.split(30, first=500)
    return Extra(Split(found.images, found.labels, torch.arange(48, 78)), share)


def trainer(run: Path, objective: Objective, **changes: Any) -> Trainer:
    return Trainer(
        objective,
        small.dataset(),
        small.settings(epochs=2),
        changes.pop("validation", ValidationSettings(steps=2)),
        GuardSettings(overfitting="off"),
        run=run,
        augmentation=VARIED,
        extra=changes.pop("extra", extra()),
        progress="quiet",
        **changes,
    )


def plain() -> Objective:
    return small.Plain(small.network(), Linf("8/255"))


@pytest.mark.parametrize("kind", [MMA, PGI])
def test_memories_have_room_for_the_examples_of_both(tmp_path: Path, kind: type[MMA | PGI]) -> None:
    objective = kind(small.network(), Linf("8/255"))
    trained = trainer(tmp_path / "run", objective)
    # 4 of 8 are of the first source, so 48 of them last for 12 updates.
    assert trained.steps_per_epoch == 12
    assert trained.fit().status == "finished"
    table = objective.margins.table if isinstance(objective, MMA) else objective.visits.table
    assert len(table) == 78
    if isinstance(objective, PGI):
        # Every example was visited: the first ones twice, the others 96 times in all.
        assert objective.visits.table[:48].tolist() == [2] * 48
        assert objective.visits.table[48:].sum() == 96


@pytest.mark.parametrize("at", [1, 12, 17])
def test_a_resumed_run_gives_the_same_bits(tmp_path: Path, at: int) -> None:
    whole = trainer(tmp_path / "whole", plain())
    whole.fit()

    def interrupt(step: int) -> None:
        if step == at:
            signal.raise_signal(signal.SIGTERM)

    run = tmp_path / "parts"
    assert trainer(run, plain(), sinks=[small.Recorder(interrupt)]).fit().status == "interrupted"
    rest = trainer(run, plain(), resume=True)
    assert rest.fit().status == "finished"
    assert small.same(small.weights(rest), small.weights(whole))
    assert small.rows(run) == small.rows(tmp_path / "whole")
    with pytest.raises(UserError, match="extra examples"):
        trainer(run, plain(), resume=True, extra=None).fit()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Synthetic images: of the sample's kind, without a test set."""
    numbers = np.random.default_rng(0)
    images = numbers.integers(0, 256, (40, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "synthetic.npz", x_train=images, y_train=np.arange(40) % 10)
    return tmp_path / "synthetic.npz"


def recipe(*flags: str) -> recipes.Recipe:
    return recipes.load("demo-robust", list(flags))


def test_a_recipe_names_it(archive: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "demo-robust"\n[data.extra]\nname = "npz:{archive}"\nshare = 0.7\n')
    found = recipes.load(path)
    assert found.data.extra is not None and found.data.extra.share == 0.7 and found.data.extra.labels is None
    assert found == recipe("--data.extra", f"npz:{archive}", "--data.extra.share", "0.7") or found.description
    recipes.write(found, tmp_path / "again.toml")
    assert recipes.load(tmp_path / "again.toml") == found
    data = load("fashion-mnist-sample")
    loaded = load_extra(found, data)
    assert loaded is not None and len(loaded.split) == 40
    known = torch.cat([data.train.indices, data.validation.indices])
    assert loaded.split.indices.min() == known.max() + 1 and len(loaded.split.indices.unique()) == 40
    assert load_extra(recipe(), data) is None


def test_a_model_labels_it(archive: Path, tmp_path: Path) -> None:
    run = tmp_path / "teacher"
    assert main(["train", "demo-robust", *TINY, "--output", str(run)]) == 0
    words = ["--data.extra", str(archive), "--data.extra.share", "0.5", "--data.extra.labels", str(run)]
    data = load("fashion-mnist-sample")
    found = load_extra(recipe(*words), data)
    assert found is not None
    model = runs.find(run).trained_model(data).eval()
    with torch.no_grad():
        said = model(found.split.images.float() / 255).argmax(dim=1)
    assert torch.equal(found.split.labels, said)
    student = ["--output", str(tmp_path / "student"), "--cutmix", "0.5", "--erasing", "0.2"]
    assert main(["train", "demo-robust", *TINY, *words, *student]) == 0


@pytest.mark.parametrize(("arrays", "message"), [
    ({"x_train": np.zeros((4, 8, 8), np.uint8)}, r"images of shape \(1, 8, 8\), expected \(1, 28, 28\)"),
    ({"y_train": np.array([0, 1, 2, 10])}, "labels up to 10, expected 0 to 9"),
    ({"classes": np.array(["a", "b", "c", "d"])}, "has other classes than fashion-mnist-sample"),
])  # fmt: skip
def test_other_images_and_labels_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"x_train": np.zeros((4, 28, 28), np.uint8), "y_train": np.arange(4)}
    np.savez(tmp_path / "other.npz", **(usual | arrays))
    words = ["--data.extra", str(tmp_path / "other.npz"), "--data.extra.share", "0.5"]
    with pytest.raises(UserError, match=message):
        load_extra(recipe(*words), load("fashion-mnist-sample"))


def test_a_source_without_training_examples_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", x_test=np.zeros((4, 28, 28), np.uint8), y_test=np.arange(4))
    words = ["--data.extra", str(tmp_path / "test.npz"), "--data.extra.share", "0.5"]
    with pytest.raises(UserError, match="has no training examples"):
        load_extra(recipe(*words), load("fashion-mnist-sample"))


@pytest.mark.parametrize(("flags", "message"), [
    (["--data.extra", "x.npz"], "share"),
    (["--data.extra.share", "0.5"], "name"),
    (["--data.extra", "x.npz", "--data.extra.share", "1"], "data.extra.share"),
    (["--data.extra", "x.npz", "--data.extra.size", "1"], "--data.extra.size"),
    (["--cutmix", "2"], "data.cutmix"),
])  # fmt: skip
def test_mistakes_in_a_recipe_are_named(flags: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe(*flags)
