from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from soar import checkpoints
from soar.errors import UserError
from soar.recipes.settings import ValidationSettings
from soar.threat import Linf
from soar.training.result import Outcome
from tests.training import small


class TestResume:
    """Interrupted and resumed anywhere, a run gives the bits of an uninterrupted one."""

    changes: dict[str, Any] = {"ema_decay": 0.9, "accumulation_steps": 2, "eps_warmup_epochs": 1.0}  # noqa: RUF012

    def objective(self) -> small.Plain:
        # Dropout draws from torch's own generator, whose state must come back as well.
        model = nn.Sequential(nn.BatchNorm2d(1), nn.Dropout(0.3), small.network())
        return small.Plain(model, Linf("8/255"))

    def whole(self, run: Path) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
        trainer = small.trainer(run, objective=self.objective(), **self.changes)
        trainer.fit()
        return small.weights(trainer), small.rows(run)

    @pytest.mark.parametrize("at", [1, 6, 11, 18])
    def test_after_a_signal(self, tmp_path: Path, at: int) -> None:
        weights, rows = self.whole(tmp_path / "whole")
        run = tmp_path / "parts"

        def interrupt(step: int) -> None:
            if step == at:
                signal.raise_signal(signal.SIGTERM)

        sinks = [small.Recorder(interrupt)]
        first = small.trainer(run, objective=self.objective(), sinks=sinks, **self.changes).fit()
        assert (first.status, first.reason, first.steps) == ("interrupted", "SIGTERM", at)
        assert Outcome.load(run) is None, "it can go on"
        trainer = small.trainer(run, objective=self.objective(), resume=True, **self.changes)
        assert trainer.fit().status == "finished"
        assert small.same(small.weights(trainer), weights)
        assert small.rows(run) == rows

    def test_a_signal_during_validation_is_obeyed_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weights, rows = self.whole(tmp_path / "whole")
        run = tmp_path / "parts"
        trainer = small.trainer(run, objective=self.objective(), **self.changes)

        def interrupt(*_: object) -> None:
            if trainer._stop.signal is None:
                signal.raise_signal(signal.SIGINT)

        trainer.updates.judged_model.register_forward_hook(interrupt)
        assert trainer.fit().status == "interrupted"
        assert trainer.state.step == 6
        assert trainer.state.last is None
        trainer = small.trainer(run, objective=self.objective(), resume=True, **self.changes)
        trainer.fit()
        assert small.same(small.weights(trainer), weights)
        assert small.rows(run) == rows

    def test_from_an_older_checkpoint_when_the_newest_is_damaged(self, tmp_path: Path) -> None:
        weights, rows = self.whole(tmp_path / "whole")
        run = tmp_path / "parts"
        changes = self.changes | {"save_steps": 4}
        small.trainer(run, objective=self.objective(), **changes, max_steps=12).fit()
        newest = run / "checkpoints" / "step-00000012"
        (newest / "model.safetensors").write_bytes(b"half of it")
        trainer = small.trainer(run, objective=self.objective(), resume=True, **changes)
        with pytest.warns(UserWarning, match=r"step-00000012 is damaged.*using .*step-00000008"):
            trainer.fit()
        assert small.same(small.weights(trainer), weights)
        assert small.rows(run) == rows
        assert checkpoints.damage(newest) is None or not newest.exists()

    def test_of_a_finished_run_changes_nothing(self, tmp_path: Path) -> None:
        weights, rows = self.whole(tmp_path)
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "checkpoints").rglob("*")}
        trainer = small.trainer(tmp_path, objective=self.objective(), resume=True, **self.changes)
        result = trainer.fit()
        assert (result.status, result.steps) == ("finished", 18)
        assert small.same(small.weights(trainer), weights)
        assert small.rows(tmp_path) == rows
        after = {path: path.stat().st_mtime_ns for path in (tmp_path / "checkpoints").rglob("*")}
        assert after == before


class TestResumeWithMuon(TestResume):
    changes: dict[str, Any] = {"optimizer": "muon", "ema_decay": 0.9}  # noqa: RUF012

    def objective(self) -> small.Plain:
        return small.Plain(small.deep_network(), Linf("8/255"))


def test_a_fresh_start_in_a_used_folder_is_refused(tmp_path: Path) -> None:
    small.trainer(tmp_path, max_steps=1).fit()
    before = (tmp_path / "metrics.jsonl").read_text()
    with pytest.raises(UserError, match=r"holds a training already; resume it \(flag --resume\)"):
        small.trainer(tmp_path).fit()
    assert (tmp_path / "metrics.jsonl").read_text() == before


def test_resuming_where_nothing_was_saved_starts_afresh(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    result = small.trainer(tmp_path, resume=True, max_steps=2).fit()
    assert result.steps == 2
    assert [row["step"] for row in small.rows(tmp_path)] == [1, 2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 16}, "the run has batch_size 8, got 16; a resumed run must keep it"),
        ({"seed": 5}, "the run has seed 0, got 5"),
        ({"data": small.dataset(train=40)}, "the run has training examples 48, got 40"),
    ],
)
def test_a_resumed_run_must_keep_its_data_order(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    small.trainer(tmp_path, max_steps=1).fit()
    with pytest.raises(UserError, match=message):
        small.trainer(tmp_path, resume=True, **changes).fit()


def test_a_full_disk_in_mid_training_is_told_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", small.Scripted(0.5, 0.6, 0.4))
    original = checkpoints.save

    def full_at_12(run: Path, snapshot: checkpoints.Snapshot) -> Path:
        if snapshot.state["step"] == 12:
            raise OSError(28, "No space left on device")
        return original(run, snapshot)

    monkeypatch.setattr(checkpoints, "save", full_at_12)
    result = small.trainer(tmp_path, progress="plain").fit()
    assert result.status == "finished"
    assert "No space left on device); training goes on" in capsys.readouterr().err
    assert result.best == tmp_path / "checkpoints" / "step-00000006", "12 could not be kept"


def test_a_full_disk_at_the_end_is_an_error_that_keeps_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.trainer(tmp_path, max_steps=6).fit()

    def full(folder: Path, _: object) -> None:
        folder.mkdir()
        (folder / "half").write_bytes(b"")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_files", full)
    trainer = small.trainer(tmp_path, resume=True, validation=ValidationSettings(every=9))
    with pytest.raises(UserError, match=r"No space left on device\); earlier checkpoints are untouched"):
        trainer.fit()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir() if path.is_dir()] == ["step-00000006"]
    assert checkpoints.newest_usable(tmp_path) is not None


def test_start_from_takes_weights_only(tmp_path: Path) -> None:
    first = small.trainer(tmp_path / "first")
    first.fit()
    model = small.network(seed=5)
    best = checkpoints.best(tmp_path / "first")
    assert best is not None
    for source in (tmp_path / "first", best, best / "model.safetensors"):
        trainer = small.trainer(tmp_path / "second", objective=small.Plain(model), start_from=str(source))
        expected = checkpoints.load(best).model
        assert small.same(small.weights(trainer), expected)
        assert trainer.state.step == 0


def test_a_resumed_run_no_longer_needs_the_weights_it_started_from(tmp_path: Path) -> None:
    small.trainer(tmp_path / "first", max_steps=1).fit()
    start = str(tmp_path / "first")
    small.trainer(tmp_path / "second", start_from=start, max_steps=2).fit()
    (tmp_path / "first").rename(tmp_path / "gone")
    result = small.trainer(tmp_path / "second", start_from=start, resume=True).fit()
    assert (result.status, result.steps) == ("finished", 18)


def test_start_from_another_model_names_the_first_tensor_that_differs(tmp_path: Path) -> None:
    small.trainer(tmp_path / "first", max_steps=1).fit()
    other = nn.Sequential(nn.Conv2d(1, 5, 3), nn.Softplus(), nn.Flatten(), nn.Linear(80, 2))
    text = r"training.start_from: .*'0.weight' has shape \(3, 1, 3, 3\), the model needs \(5, 1, 3, 3\)"
    with pytest.raises(UserError, match=text):
        small.trainer(tmp_path / "x", objective=small.Plain(other), start_from=str(tmp_path / "first"))
