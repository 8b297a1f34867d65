"""`training.deterministic`: PyTorch's settings during a training, and its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from soar.objectives import OBJECTIVES, Output
from soar.threat import L2, Linf
from tests.training import small


class Watching(small.Plain):
    """Notes whether only deterministic operations are allowed."""

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return super().compute(x, y, index, step)


seen: list[bool] = []


@pytest.mark.parametrize("wanted", [True, False])
def test_it_holds_during_a_training_and_not_after(wanted: bool, tmp_path: Path) -> None:
    seen.clear()
    small.trainer(tmp_path, objective=Watching(small.network(), Linf("8/255")), deterministic=wanted).fit()
    assert len(seen) == 18 and set(seen) == {wanted}
    assert not torch.are_deterministic_algorithms_enabled()


class _StopAt(small.Recorder):
    def log(self, step: int, row: Any) -> None:
        if step == 4:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["pgi", "trades"])
def test_a_resumed_run_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    def trainer(run: Path, **changes: Any) -> Any:
        objective = OBJECTIVES[name].build(small.network(), L2("0.3"))
        return small.trainer(run, objective=objective, epochs=1, deterministic=True, save_steps=2, **changes)

    whole = trainer(tmp_path / "whole")
    whole.fit()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "parts", sinks=[_StopAt()]).fit()
    assert not torch.are_deterministic_algorithms_enabled()
    resumed = trainer(tmp_path / "parts", resume=True)
    assert resumed.fit().status == "finished"
    assert small.same(small.weights(resumed), small.weights(whole))
