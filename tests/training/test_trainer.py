from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soar import checkpoints
from soar.data import Augmentation, training_batches
from soar.errors import UserError
from soar.objectives import Output
from soar.recipes.settings import GuardSettings
from soar.threat import Linf
from soar.training.result import Outcome
from tests.training import small


def test_the_loop_equals_a_bare_loop_of_torch(tmp_path: Path) -> None:
    """The oracle: ten lines anyone would write, with the same data order."""
    model = small.network()
    data = small.dataset()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
    for epoch in range(2):
        batches = training_batches(
            data.train, batch_size=8, seed=0, epoch=epoch, augmentation=Augmentation(flip=True)
        )
        for batch in batches:
            x, y, _ = batch.on()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    trainer = small.trainer(tmp_path / "run", epochs=2, schedule="constant", channels_last=False)
    assert trainer.fit().status == "finished"
    assert small.same(small.weights(trainer), dict(model.state_dict()))


def test_a_finished_run_says_what_it_found(tmp_path: Path) -> None:
    sink = small.Recorder()
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
    assert state["selection"] == trainer.manager.rule
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
    assert "within linf 8/255" in trainer.manager.rule
    eps = [row["eps"] for row in small.rows(tmp_path) if row["kind"] == "train"]
    assert eps[:3] == pytest.approx([8 / 765, 16 / 765, 8 / 255])
    assert objective.threat == threat


def test_four_micro_batches_give_the_update_of_one_batch(tmp_path: Path) -> None:
    found = []
    for accumulate in (1, 4):
        objective = small.Plain(small.network(dtype=torch.float64), Linf("8/255"))
        run = tmp_path / str(accumulate)
        trainer = small.trainer(run, objective=objective, accumulation_steps=accumulate)
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
        *(tmp_path,), objective=small.Plain(model, None), sinks=[small.Recorder(follow)], ema_decay=0.6
    )
    result = trainer.fit()
    assert trainer.updates.average is not None
    for name, x in trainer.updates.average.model.state_dict().items():
        torch.testing.assert_close(x, expected[name], rtol=1e-5, atol=1e-6)
    assert trainer.updates.judged_model is trainer.updates.average.model
    assert result.best is not None
    assert (result.best / "ema.safetensors").exists()


@pytest.mark.parametrize(
    "precision, native, expected",
    [
        ("float32", True, torch.float32),
        ("bfloat16", False, torch.bfloat16),
        ("auto", True, torch.bfloat16),
        ("auto", False, torch.float32),
    ],
)
def test_bfloat16_is_used_where_asked_for_and_auto_where_the_processor_computes_it(
    precision: str, native: bool, expected: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soar.training.updates.computes_bfloat16", lambda _: native)
    kinds = set()

    class Watching(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            output = super().compute(x, y, index, step)
            kinds.add(output.logits.dtype)
            return output

    small.trainer(tmp_path, objective=Watching(small.network()), precision=precision, max_steps=1).fit()
    assert kinds == {expected}


def test_a_loss_that_is_not_a_number_stops_before_the_weights_are_touched(tmp_path: Path) -> None:
    class Breaking(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            output = super().compute(x, y, index, step)
            return output._replace(loss=output.loss * (torch.nan if step == 7 else 1))

    trainer = small.trainer(tmp_path, objective=Breaking(small.network(), Linf("8/255")))
    result = trainer.fit()
    assert (result.status, result.steps) == ("stopped", 7)
    assert result.reason == "step 7: the loss is nan"
    times = round(result.seconds, 1), round(result.cpu_seconds, 1)
    assert Outcome.load(tmp_path) == Outcome("stopped", result.reason, *times)
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


@pytest.mark.parametrize(("action", "status", "steps"), [("stop", "stopped", 10), ("warn", "finished", 18)])
def test_a_fall_of_the_alignment_stops_or_warns_without_validation(
    action: Literal["stop", "warn"],
    status: str,
    steps: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Turning(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
            output = super().compute(x, y, index, step)
            turned = torch.tensor(1.0 if step < 5 else -1.0)
            return output._replace(metrics={"alignment": turned})

    result = small.trainer(
        tmp_path,
        objective=Turning(small.network(), Linf("8/255")),
        data=small.dataset(validation=0),
        guards=GuardSettings(overfitting=action, alignment_drop=0.5),
        progress="plain",
    ).fit()
    # The running mean 2 * 0.95^n - 1 is below a half after six such steps, of which step 10 is the last.
    assert (result.status, result.steps) == (status, steps)
    told = result.reason if action == "stop" else capsys.readouterr().err
    assert "step 10: catastrophic overfitting: the alignment of gradients fell from 1.00 to 0.47" in told


def test_only_the_newest_two_checkpoints_and_the_best_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soar.training.trainer.validate", small.Scripted(0.6, 0.5, 0.5))
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


def test_batches_must_divide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = r"training.batch_size: got 8, expected a multiple of 3 \(1 processes x 3 micro-batches"
    with pytest.raises(UserError, match=text):
        small.trainer(tmp_path, accumulation_steps=3)
    with pytest.raises(UserError, match=r"training\.batch_size: got 100"):
        small.trainer(tmp_path, batch_size=100)


def test_the_rule_and_the_accuracies_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.trainer(tmp_path, progress="plain", epochs=1).fit()
    text = capsys.readouterr().err
    assert "best checkpoint: highest robust accuracy under PGD-2 within linf 8/255 on 20 held" in text
    assert "epoch 1: clean " in text
    assert ", robust " in text
    assert "48/48 images" in text
