from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from soar import checkpoints
from soar.checkpoints import Snapshot
from tests.training import small


def snapshot(step: int = 5, **state: Any) -> Snapshot:
    filters = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    model = {"filters": filters, "steps": torch.tensor(7), "double": torch.ones(2).double()}
    optimizer = {0: {"momentum_buffer": torch.arange(3.0)}, 1: {"momentum_buffer": None}}
    trainer = {"optimizer": optimizer, "generators": [{"cpu": torch.get_rng_state()}]}
    return Snapshot(model, {"a": filters, "b": filters}, trainer, {"step": step} | state)


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def test_everything_comes_back_bit_for_bit(tmp_path: Path) -> None:
    """Channels-last, shared and 64-bit tensors included."""
    written = snapshot(best={"step": 3, "clean": 0.1 + 0.2})
    path = checkpoints.save(tmp_path, written)
    assert path == tmp_path / "checkpoints" / "step-00000005"
    read = checkpoints.load(path)
    assert small.same(read.model, written.model)
    assert written.ema is not None
    assert read.ema is not None
    assert small.same(read.ema, written.ema)
    assert equal(read.trainer, written.trainer)
    digests = read.state.pop("sha256")
    assert read.state == written.state
    assert digests.keys() == {"model.safetensors", "ema.safetensors", "trainer.pt", "state.json"}


def test_without_an_average_there_is_no_file_of_it(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, Snapshot({"a": torch.ones(1)}, None, {}, {"step": 0}))
    assert checkpoints.load(path).ema is None
    assert sorted(file.name for file in path.iterdir()) == [
        *("model.safetensors", "state.json", "trainer.pt")
    ]


def test_nothing_else_remains_beside_the_checkpoints(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, snapshot(5))
    checkpoints.save(tmp_path, snapshot(5))
    checkpoints.mark_best(tmp_path, "step-00000005")
    names = sorted(os.listdir(tmp_path / "checkpoints"))
    assert names == ["best", "step-00000005"]


@pytest.mark.parametrize("name", ["model.safetensors", "ema.safetensors", "trainer.pt", "state.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_any_damage_is_noticed_and_the_one_before_is_used(tmp_path: Path, name: str, harm: str) -> None:
    older, newer = (checkpoints.save(tmp_path, snapshot(step)) for step in (5, 9))
    file = newer / name
    data = file.read_bytes()
    if harm == "flip":
        # The last digit of the state's own step, the last bit of the others.
        changed = data.replace(b'"step": 9', b'"step": 8', 1)
        file.write_bytes(changed if name == "state.json" else data[:-1] + bytes([data[-1] ^ 1]))
    elif harm == "remove":
        file.unlink()
    else:
        file.write_bytes(data[: len(data) // 2])
    text = rf"checkpoint {newer} is damaged: {name}.*; using {older}"
    with pytest.warns(UserWarning, match=text):
        assert checkpoints.newest_usable(tmp_path) == older


def test_only_damaged_ones_count_as_none(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, snapshot(5))
    (path / "state.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"is damaged: state.json cannot be read.*no other is left"):
        assert checkpoints.newest_usable(tmp_path) is None


def test_no_run_has_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoints.newest_usable(tmp_path / "nothing") is None
    assert checkpoints.best(tmp_path / "nothing") is None


def test_the_newest_is_the_one_with_the_highest_step(tmp_path: Path) -> None:
    for step in (100_000_001, 99_999_999, 5):
        checkpoints.save(tmp_path, snapshot(step))
    newest = checkpoints.newest_usable(tmp_path)
    assert newest is not None
    assert newest.name == "step-100000001"


def test_a_failed_write_leaves_the_others_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkpoints.save(tmp_path, snapshot(5))
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 100:
            real(descriptor, data[:100])
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    for step in (5, 6):
        with pytest.raises(OSError, match="No space left"):
            checkpoints.save(tmp_path, snapshot(step))
    monkeypatch.undo()
    assert os.listdir(tmp_path / "checkpoints") == [path.name]
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_failed_rename_puts_the_replaced_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkpoints.save(tmp_path, snapshot(5))
    real = os.replace

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name == "written":
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        checkpoints.save(tmp_path, snapshot(5))
    assert checkpoints.damage(path) is None
    assert os.listdir(tmp_path / "checkpoints") == [path.name]


def test_what_a_kill_left_behind_is_ignored_and_cleaned(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, snapshot(5))
    half = tmp_path / "checkpoints" / ".soar-0123456789abcdef.tmp"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert checkpoints.newest_usable(tmp_path) == path
    checkpoints.open_run(tmp_path, resume=True)
    assert os.listdir(tmp_path / "checkpoints") == [path.name]


def test_the_best_is_what_the_pointer_and_the_newest_checkpoint_know(tmp_path: Path) -> None:
    first = checkpoints.save(tmp_path, snapshot(5, best={"step": 5}))
    second = checkpoints.save(tmp_path, snapshot(9, best={"step": 5}))
    assert checkpoints.best(tmp_path) == first, "killed before the first pointer"
    checkpoints.mark_best(tmp_path, first.name)
    third = checkpoints.save(tmp_path, snapshot(12, best={"step": 12}))
    assert checkpoints.best(tmp_path) == third, "killed before the pointer was moved"
    checkpoints.mark_best(tmp_path, third.name)
    (third / "state.json").unlink()
    assert checkpoints.best(tmp_path) == third, "a damaged choice is not replaced in silence"
    (tmp_path / "checkpoints" / "best").write_bytes(b"\xff\x00")
    assert checkpoints.best(tmp_path) == first, "what the newest usable one says"
    (tmp_path / "checkpoints" / "best").unlink()
    assert checkpoints.best(tmp_path) == first
    for path in (first, second):
        (path / "trainer.pt").unlink()
    assert checkpoints.best(tmp_path) is None


def test_pruning_keeps_the_newest_two_and_the_best(tmp_path: Path) -> None:
    for step in range(1, 6):
        checkpoints.save(tmp_path, snapshot(step))
    (tmp_path / "checkpoints" / "mine").mkdir()
    checkpoints.prune(tmp_path, keep="step-00000002")
    assert sorted(os.listdir(tmp_path / "checkpoints")) == [
        *("mine", "step-00000002", "step-00000004", "step-00000005")
    ]


def test_no_pickled_code_is_run(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(tmp_path / "harm"),))

    path = checkpoints.save(tmp_path, snapshot(5))
    torch.save({"optimizer": Harm()}, path / "trainer.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        checkpoints.load(path)
    assert not (tmp_path / "harm").exists()


def test_state_is_plain_json(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, snapshot(5, selection="the last"))
    assert json.loads((path / "state.json").read_text())["selection"] == "the last"
