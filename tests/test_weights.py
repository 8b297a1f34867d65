from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from soar import checkpoints
from soar.checkpoints import Snapshot
from soar.errors import UserError
from soar.weights import find_weights, load_weights


def save(run: Path, step: int, *, ema: bool = False, best: int | None = None) -> Path:
    model = {"weight": torch.full((1, 2), float(step)), "bias": torch.zeros(1)}
    average = {name: -x for name, x in model.items()} if ema else None
    return checkpoints.save(run, Snapshot(model, average, {}, {"step": step, "best": {"step": best or step}}))


def test_a_run_stands_for_its_best_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 3)
    save(tmp_path, 4, best=3)
    model = nn.Linear(2, 1)
    found = load_weights(model, tmp_path, "training.start_from")
    assert found.file == tmp_path / "checkpoints" / "step-00000003" / "model.safetensors"
    assert found.sha256 == hashlib.sha256(found.file.read_bytes()).hexdigest()
    assert found.step == 3
    assert str(found) == f"{found.file} (step 3, sha256 {found.sha256[:12]})"
    assert model.weight.tolist() == [[3.0, 3.0]]


def test_a_checkpoint_stands_for_its_average_where_there_is_one(tmp_path: Path) -> None:
    path = save(tmp_path, 3, ema=True)
    assert find_weights(path, "x").file == path / "ema.safetensors"
    file = find_weights(path / "model.safetensors", "x")
    assert (file.file, file.step) == (path / "model.safetensors", None)


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", ""])
def test_a_damaged_best_checkpoint_is_refused_and_others_are_named(tmp_path: Path, name: str) -> None:
    best, _ = save(tmp_path, 3), save(tmp_path, 4, best=3)
    checkpoints.mark_best(tmp_path, best.name)
    if name:
        (best / name).write_text("changed")
    else:
        shutil.rmtree(best)
    text = rf"RUN: checkpoint {best} is damaged \(.*\); name another one, step-00000004 \(flag --checkpoint\)"
    with pytest.raises(UserError, match=text):
        find_weights(tmp_path, "RUN")
    if name:
        with pytest.raises(UserError, match="is damaged"):
            find_weights(best, "training.start_from")
    (tmp_path / "checkpoints" / "step-00000004" / "trainer.pt").unlink()
    with pytest.raises(UserError, match=r"is damaged \(.*\); no other is left"):
        find_weights(tmp_path, "RUN")


@pytest.mark.parametrize("name", ["nothing", "empty", "file.pt"])
def test_a_path_without_weights(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.pt").write_bytes(b"")
    text = rf"--weights: got '.*{name}', which holds no usable weights; allowed: a run folder"
    with pytest.raises(UserError, match=text):
        find_weights(tmp_path / name, "--weights")


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"<html>")
    with pytest.raises(UserError, match=r"--weights: '.*w.safetensors' is not a safetensors file"):
        load_weights(nn.Linear(2, 1), tmp_path / "w.safetensors", "--weights")


@pytest.mark.parametrize(
    ("saved", "difference"),
    [
        ({"weight": (1, 2)}, "tensor 'bias' is missing"),
        (
            {"weight": (1, 3), "bias": (2,)},
            r"tensor 'weight' has shape \(1, 3\), the model needs \(1, 2\)",
        ),
        ({"weight": (1, 2), "bias": (1,), "scale": (1,)}, "tensor 'scale' is not in the model"),
    ],
)
def test_weights_of_another_model(tmp_path: Path, saved: dict[str, tuple[int, ...]], difference: str) -> None:
    file = tmp_path / "w.safetensors"
    safetensors.torch.save_file({name: torch.ones(shape) for name, shape in saved.items()}, file)
    model = nn.Linear(2, 1)
    before = model.weight.clone()
    text = rf"--weights: '{file}' holds the weights of another model: {difference}"
    with pytest.raises(UserError, match=text):
        load_weights(model, file, "--weights")
    assert torch.equal(model.weight, before)
