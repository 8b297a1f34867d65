from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar import checkpoints
from soar.distributed import World
from soar.errors import UserError
from soar.progress import Progress
from soar.recipes.settings import GuardSettings
from soar.threat import Linf
from soar.training.checkpointing import CheckpointManager, TrainerState
from soar.training.guards import Guards
from soar.training.updates import Updates
from soar.training.validation import Scores
from tests.training import small

IDENTITY = {"seed": 0, "batch_size": 8}
shares = st.floats(0, 1)
scores = st.builds(Scores, st.integers(1, 10**6), shares, st.none() | shares)


def manager(
    run: Path, *, seed: int = 0, identity: dict[str, int] = IDENTITY, **changes: Any
) -> CheckpointManager:
    objective = small.Plain(small.network(seed=seed), Linf("8/255"))
    settings = small.settings(**changes)
    updates = Updates(objective, settings, 6, device=torch.device("cpu"), world=World())
    state = TrainerState(Guards(GuardSettings()))
    return CheckpointManager(run, state, updates, identity=identity, rule="the highest")


def save(made: CheckpointManager, *, must_succeed: bool = True) -> str:
    """Save, and give what was said about it."""
    said = io.StringIO()
    with Progress(1, "training", "plain", stream=said) as bar:
        made.save(World(), bar, must_succeed=must_succeed)
    return said.getvalue()


def saved(run: Path) -> list[str]:
    return [path.name for path in checkpoints.available(run)]


def test_what_was_saved_is_taken_up_again(tmp_path: Path) -> None:
    first = manager(tmp_path)
    first.open(World(), resume=False)
    first.state.step = 9
    first.state.record(Scores(9, 0.75, 0.5), "robust")
    first.log({"loss": 0.25})
    save(first)
    first.log({"loss": 9.0})  # of a step that was made after the checkpoint
    first.close()
    second = manager(tmp_path, seed=1)
    second.open(World(), resume=True)
    assert second.state == first.state
    assert second.epoch == 1.5
    for ours, theirs in zip(
        first.updates.objective.parameters(), second.updates.objective.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1
    second.close()


def test_nothing_is_written_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = manager(tmp_path)
    made.open(World(), resume=False)
    made.state.step = 3
    save(made)
    monkeypatch.setattr(checkpoints, "save", lambda *_: pytest.fail("it is there already"))
    save(made)
    made.close()
    assert saved(tmp_path) == ["step-00000003"]


def test_a_checkpoint_is_due_at_its_steps_and_after_a_better_validation(tmp_path: Path) -> None:
    made = manager(tmp_path, save_steps=4)
    due = []
    for step in range(9):
        made.state.step = step
        due.append(made.is_due())
    assert due == [False, False, False, False, True, False, False, False, True]
    made.state.step = 5
    made.state.record(Scores(5, 0.75, 0.5), "robust")
    assert made.is_due()


def test_a_checkpoint_is_overdue_after_its_minutes(tmp_path: Path) -> None:
    assert not manager(tmp_path, save_minutes=60.0).is_overdue()
    assert manager(tmp_path, save_minutes=1e-9).is_overdue()


def test_a_best_that_could_not_be_written_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = manager(tmp_path)
    made.open(World(), resume=False)
    made.state.step = 6
    made.state.record(Scores(6, 0.75, 0.5), "robust")

    def full(*_: object) -> Path:
        raise OSError("no space left")

    monkeypatch.setattr(checkpoints, "save", full)
    assert "(no space left); training goes on" in save(made, must_succeed=False)
    assert made.state.best is None, "a result would point to a folder that is not there"
    with pytest.raises(UserError, match="earlier checkpoints are untouched"):
        save(made)
    made.close()


def test_other_batches_are_refused_by_name(tmp_path: Path) -> None:
    first = manager(tmp_path)
    first.open(World(), resume=False)
    first.state.step = 1
    save(first)
    first.close()
    other = manager(tmp_path, identity=IDENTITY | {"batch_size": 16})
    with pytest.raises(UserError, match="the run has batch_size 8, got 16; a resumed run must keep it"):
        other.open(World(), resume=True)
    other.close()


def test_a_view_of_the_metrics_that_fails_does_not_end_the_training(tmp_path: Path) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    broken, sound = small.Recorder(full), small.Recorder()
    made = manager(tmp_path)
    made.sinks = (broken, sound)
    made.open(World(), resume=False)
    with pytest.warns(UserWarning, match=r"Recorder takes no more metrics \(no space left\)"):
        made.log({"loss": 0.5})
    made.log({"loss": 0.4})
    made.close()
    assert (len(broken.rows), len(sound.rows)) == (1, 2)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


@given(st.integers(0, 10**6), st.none() | scores, st.none() | scores, st.none() | shares)
def test_it_comes_back_from_json_as_it_was(
    step: int, best: Scores | None, last: Scores | None, mean_loss: float | None
) -> None:
    before = TrainerState(Guards(GuardSettings(), mean_loss), step, best, last)
    after = TrainerState(Guards(GuardSettings()))
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after == before


@given(st.lists(shares, min_size=1))
def test_the_best_is_the_first_of_the_highest(robust: list[float]) -> None:
    state = TrainerState(Guards(GuardSettings()))
    for step, share in enumerate(robust):
        state.record(Scores(step, 0.5, share), "robust")
    assert state.best is not None
    assert state.best.step == robust.index(max(robust))
    assert state.last == Scores(len(robust) - 1, 0.5, robust[-1])
    assert (state.overfitting is not None) == (max(robust) - robust[-1] > 0.2)


def test_a_recovery_is_forgiven() -> None:
    state = TrainerState(Guards(GuardSettings()))
    found = []
    for step, robust in enumerate((0.5, 0.0, 0.45)):
        state.record(Scores(step, 0.8, robust), "robust")
        found.append(state.overfitting is not None)
    assert found == [False, True, False]
