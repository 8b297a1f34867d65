from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soar.data import Augmentation, training_batches
from soar.errors import UserError
from soar.objectives import Output
from soar.threat import Linf
from soar.training import checkpoints
from soar.training.result import Outcome
from soar.training.settings import GuardSettings, ValidationSettings
from soar.training.validation import Scores
from tests.training import small


class Recorder:
    """A sink that keeps rows and can act on them."""

    def __init__(self, act: Any = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.act = act
        self.closed = False

    def log(self, step: int, row: Mapping[str, float | str]) -> None:
        self.rows.append({"step": step} | dict(row))
        if self.act:
            self.act(step)

    def close(self) -> None:
        self.closed = True


def test_the_loop_equals_a_bare_loop_of_torch(tmp_path: Path) -> None:
    """The oracle: ten lines anyone would write, with the same data order."""
    model = small.network()
    data = small.dataset()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
    for epoch in range(2):
        batches = training_batches(
            data.train, batch_size=8, seed=0, epoch=epoch, augmentation=Augmentation(flip=True)
        )
        for x, y, _ in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    trainer = small.trainer(tmp_path / "run", epochs=2, schedule="constant", channels_last=False)
    assert trainer.fit().status == "finished"
    assert small.same(small.weights(trainer), dict(model.state_dict()))


def test_a_finished_run_says_what_it_found(tmp_path: Path) -> None:
    sink = Recorder()
    trainer = small.trainer(tmp_path, sinks=[sink])
    result = trainer.fit()
    assert (result.status, result.reason, result.steps) == ("finished", "", 18)
    assert result.last_scores is not None
    assert result.last_scores.step == 18
    assert result.best_scores is not None
    assert result.best == tmp_path / "checkpoints" / f"step-{result.best_scores.step:08}"
    assert result.best_scores.clean >= 0.9, "the problem is easy"
    found = small.rows(tmp_path)
    assert [row["step"] for row in found if row["kind"] == "train"] == list(range(1, 19))
    assert [row["step"] for row in found if row["kind"] == "validation"] == [6, 12, 18]
    assert found[0].keys() == {
        *("step", "epoch", "kind", "loss", "accuracy", "size", "grad_norm", "lr", "eps")
    }
    assert "images_per_second" in sink.rows[0]
    assert len(sink.rows) == len(found)
    assert sink.closed
    assert trainer.objective.training
    state = json.loads((result.best / "state.json").read_text())
    assert state["selection"] == trainer.rule
    assert state["data"] == {
        **{"epoch": 3, "batch": 0, "seed": 0, "batch_size": 8, "training examples": 48},
        **{"epoch": result.best_scores.step // 6},
    }


def test_validation_uses_the_full_threat_and_training_a_growing_one(tmp_path: Path) -> None:
    threat = Linf("8/255")
    seen: list[str] = []

    class Watching(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            assert index.dtype == torch.int64
            seen.append(f"{step} {self.threat}")
            return super().compute(x, y, index, step)

    objective = Watching(small.network(), threat)
    trainer = small.trainer(tmp_path, objective=objective, eps_warmup_epochs=0.5, epochs=1)
    trainer.fit()
    assert seen[:4] == ["0 linf 8/765", "1 linf 16/765", "2 linf 8/255", "3 linf 8/255"]
    assert "within linf 8/255" in trainer.rule
    eps = [row["eps"] for row in small.rows(tmp_path) if row["kind"] == "train"]
    assert eps[:3] == pytest.approx([8 / 765, 16 / 765, 8 / 255])
    assert objective.threat == threat


def test_four_micro_batches_give_the_update_of_one_batch(tmp_path: Path) -> None:
    found = []
    for accumulate in (1, 4):
        objective = small.Plain(small.network(dtype=torch.float64), Linf("8/255"))
        run = tmp_path / str(accumulate)
        trainer = small.trainer(run, objective=objective, accumulate=accumulate)
        trainer.fit()
        found.append((small.weights(trainer), small.rows(run)))
    (one, rows), (four, other_rows) = found
    for name in one:
        assert one[name].dtype == torch.float64
        torch.testing.assert_close(four[name], one[name], rtol=1e-12, atol=1e-14)
    for row, other in zip(rows, other_rows, strict=True):
        numbers = [name for name in row if name not in ("kind", "size")]
        for name in numbers:
            assert row[name] == pytest.approx(other[name], rel=1e-9)


def test_gradients_longer_than_allowed_are_cut(tmp_path: Path) -> None:
    longest = 0.01
    objective = small.Plain(small.network(), None)
    trainer = small.trainer(
        *(tmp_path,), objective=objective, clip_grad_norm=longest, max_steps=1, momentum=0.0,
        weight_decay=0.0, schedule="constant",
    )  # fmt: skip
    before = small.weights(trainer)
    trainer.fit()
    after = small.weights(trainer)
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before]).norm()
    assert small.rows(tmp_path)[0]["grad_norm"] > longest
    assert float(moved) == pytest.approx(0.1 * longest, rel=1e-4)


def test_the_average_follows_by_the_formula_and_is_what_validation_sees(tmp_path: Path) -> None:
    model = small.network()
    expected = {name: x.clone() for name, x in model.state_dict().items()}
    step = 0

    def follow(new: int) -> None:
        nonlocal step
        if new == step + 1:
            step = new
            decay = min(0.6, step / (step + 9))
            for name, x in model.state_dict().items():
                expected[name].mul_(decay).add_(x, alpha=1 - decay)

    trainer = small.trainer(
        *(tmp_path,), objective=small.Plain(model, None), sinks=[Recorder(follow)], ema_decay=0.6
    )
    result = trainer.fit()
    assert trainer.updates.average is not None
    for name, x in trainer.updates.average.model.state_dict().items():
        torch.testing.assert_close(x, expected[name], rtol=1e-5, atol=1e-6)
    assert trainer.updates.judged_model is trainer.updates.average.model
    assert result.best is not None
    assert (result.best / "ema.safetensors").exists()


def test_bfloat16_is_used_where_allowed_and_refused_elsewhere(tmp_path: Path) -> None:
    kinds = set()

    class Watching(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            output = super().compute(x, y, index, step)
            kinds.add(output.logits.dtype)
            return output

    small.trainer(tmp_path, objective=Watching(small.network()), precision="bfloat16", max_steps=1).fit()
    assert kinds == {torch.bfloat16}

    class Refusing(small.Plain):
        allows_bfloat16 = False

    with pytest.raises(UserError, match=r"training.precision: got bfloat16.*objective Refusing"):
        small.trainer(tmp_path, objective=Refusing(small.network()), precision="bfloat16")


def test_a_loss_that_is_not_a_number_stops_before_the_weights_are_touched(tmp_path: Path) -> None:
    class Breaking(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            output = super().compute(x, y, index, step)
            return output._replace(loss=output.loss * (torch.nan if step == 7 else 1))

    trainer = small.trainer(tmp_path, objective=Breaking(small.network(), Linf("8/255")))
    result = trainer.fit()
    assert (result.status, result.steps) == ("stopped", 7)
    assert result.reason == "step 7: the loss is nan"
    assert Outcome.load(tmp_path) == ("stopped", result.reason, round(result.seconds, 1))
    assert all(x.isfinite().all() for x in small.weights(trainer).values())
    newest = checkpoints.newest_usable(tmp_path)
    assert newest is not None
    assert newest.name == "step-00000007"


def test_a_gradient_that_is_not_finite_stops_too(tmp_path: Path) -> None:
    class Breaking(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            output = super().compute(x, y, index, step)
            # The square root of 0 has value 0 and an infinite slope.
            return output._replace(loss=output.loss + (output.loss * 0).sqrt())

    result = small.trainer(tmp_path, objective=Breaking(small.network())).fit()
    assert (result.status, result.steps, result.best) == ("stopped", 0, None)
    assert "the gradient norm is" in result.reason


class Scripted:
    """Stands in for the attack of a validation: robust accuracies as given."""

    def __init__(self, *robust: float) -> None:
        self.robust = dict(zip((6, 12, 18, 24, 30), robust, strict=False))

    def __call__(self, *_: Any, step: int, **__: Any) -> Scores:
        return Scores(step, 0.8, self.robust[step])


@pytest.mark.parametrize(
    ("robust", "best"), [((0.5, 0.6, 0.55), 12), ((0.5, 0.5, 0.5), 6), ((0.1, 0.2, 0.3), 18)]
)
def test_the_best_checkpoint_is_the_first_with_the_highest_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robust: tuple[float, ...], best: int
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", Scripted(*robust))
    result = small.trainer(tmp_path).fit()
    assert result.best_scores == Scores(best, 0.8, max(robust))
    assert checkpoints.best(tmp_path) == result.best == tmp_path / "checkpoints" / f"step-{best:08}"


def test_selection_by_clean_accuracy_is_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", Scripted(0.1, 0.2, 0.3))
    guards = GuardSettings(overfitting="stop")
    trainer = small.trainer(tmp_path, validation=ValidationSettings(select="clean"), guards=guards)
    assert trainer.rule.startswith("best checkpoint: highest clean accuracy on 20")
    result = trainer.fit()
    assert result.status == "finished"
    assert result.best_scores is not None
    assert result.best_scores.step == 6


@pytest.mark.parametrize(
    ("overfitting", "status", "steps"), [("stop", "stopped", 18), ("warn", "finished", 30)]
)
def test_catastrophic_overfitting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    overfitting: Any,
    status: str,
    steps: int,
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", Scripted(0.4, 0.45, 0.2, 0.4, 0.4))
    guards = GuardSettings(overfitting=overfitting)
    result = small.trainer(tmp_path, guards=guards, epochs=5, progress="plain").fit()
    assert (result.status, result.steps) == (status, steps)
    text = "catastrophic overfitting: robust validation accuracy fell from 45.0% to 20.0%"
    assert f"warning: {text}" in capsys.readouterr().err
    if overfitting == "stop":
        assert text in result.reason
        again = small.trainer(tmp_path, guards=guards, epochs=5, resume=True).fit()
        assert (again.status, again.steps, again.reason) == (status, steps, result.reason)
        off = GuardSettings(overfitting="off")
        assert small.trainer(tmp_path, guards=off, epochs=5, resume=True).fit().steps == 30


def test_without_held_out_examples_the_last_checkpoint_is_the_best(tmp_path: Path) -> None:
    trainer = small.trainer(tmp_path, data=small.dataset(validation=0))
    assert trainer.rule == "no held-out examples, so the last checkpoint counts as the best"
    result = trainer.fit()
    assert result.best == tmp_path / "checkpoints" / "step-00000018"
    assert result.best_scores is None


def test_without_a_threat_clean_accuracy_decides(tmp_path: Path) -> None:
    trainer = small.trainer(tmp_path, objective=small.Plain(small.network()))
    assert "clean accuracy (there is no threat" in trainer.rule
    result = trainer.fit()
    assert result.best_scores is not None
    assert result.best_scores.robust is None
    assert "eps" not in small.rows(tmp_path)[0]


def test_only_the_newest_two_checkpoints_and_the_best_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", Scripted(0.6, 0.5, 0.5))
    small.trainer(tmp_path, save_steps=2).fit()
    names = [path.name for path in checkpoints.available(tmp_path)]
    assert names == ["step-00000006", "step-00000016", "step-00000018"]


def test_checkpoints_by_the_clock(tmp_path: Path) -> None:
    small.trainer(tmp_path, save_minutes=0.0, data=small.dataset(validation=0)).fit()
    names = [path.name for path in checkpoints.available(tmp_path)]
    assert names == ["step-00000017", "step-00000018"]


def test_dropout_depends_on_the_seed_alone_and_leaves_the_generator_as_it_was(
    tmp_path: Path,
) -> None:
    found = []
    for number, seed in enumerate([0, 0, 1]):
        torch.manual_seed(number)
        model = nn.Sequential(nn.Dropout(0.3), small.network())
        before = torch.get_rng_state()
        trainer = small.trainer(tmp_path / str(number), objective=small.Plain(model), seed=seed)
        trainer.fit()
        assert torch.equal(torch.get_rng_state(), before)
        found.append(small.weights(trainer))
    assert small.same(found[0], found[1])
    assert not small.same(found[0], found[2])


class TestResume:
    """Interrupted and resumed anywhere, a run gives the bits of an uninterrupted one."""

    changes: dict[str, Any] = {"ema_decay": 0.9, "accumulate": 2, "eps_warmup_epochs": 1.0}  # noqa: RUF012

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

        sinks = [Recorder(interrupt)]
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
        assert trainer.step == 6
        assert trainer.last is None
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
    monkeypatch.setattr("soar.training.trainer.validate", Scripted(0.5, 0.6, 0.4))
    original = checkpoints.save

    def full_at_12(run: Path, snapshot: checkpoints.Snapshot) -> Path:
        if snapshot.state["step"] == 12:
            raise OSError(28, "No space left on device")
        return original(run, snapshot)

    monkeypatch.setattr(checkpoints, "save", full_at_12)
    result = small.trainer(tmp_path, progress="plain").fit()
    assert result.status == "finished"
    assert "No space left on device; training goes on" in capsys.readouterr().err
    assert result.best == tmp_path / "checkpoints" / "step-00000006", "12 could not be kept"


def test_a_full_disk_at_the_end_is_an_error_that_keeps_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.trainer(tmp_path, max_steps=6).fit()

    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write_files", lambda folder, _: full(folder / "x", b""))
    trainer = small.trainer(tmp_path, resume=True, validation=ValidationSettings(every=9))
    with pytest.raises(UserError, match="No space left on device; earlier checkpoints are untouched"):
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
        assert trainer.step == 0


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


def test_batches_must_divide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = r"training.batch_size: got 8, expected a multiple of 3 \(1 processes x 3 micro-batches"
    with pytest.raises(UserError, match=text):
        small.trainer(tmp_path, accumulate=3)
    with pytest.raises(UserError, match=r"training\.batch_size: got 100"):
        small.trainer(tmp_path, batch_size=100)


def test_the_rule_and_the_accuracies_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.trainer(tmp_path, progress="plain", epochs=1).fit()
    text = capsys.readouterr().err
    assert "best checkpoint: highest robust accuracy under PGD-2 within linf 8/255 on 20 held" in text
    assert "epoch 1: clean " in text
    assert ", robust " in text
    assert "48/48 images" in text
