from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import PGD, run
from soar.evaluation.checks import PGD_CE, indicators
from soar.evaluation.checks.indicators import MOST_EXAMPLES, roughness, still_rises, unfinished
from soar.evaluation.target import Target
from soar.threat import L2, Linf
from tests.evaluation.checks.made import Behind, Linear, images, rounded, shared


def test_a_rise_counts_in_the_last_ten_steps_and_from_five_percent_of_the_range() -> None:
    def way(at_ten: float, at_end: float, dip: float = 0.0) -> Tensor:
        return torch.cat([torch.linspace(0, at_ten, 11), torch.full((9,), dip), torch.tensor([at_end])])

    ways = [way(1.0, 1.04), way(1.0, 1.06), way(1.0, 0.5), way(0.0, 0.0), way(1.0, 1.04, dip=-1.0)]
    assert still_rises(torch.stack(ways, dim=1)).tolist() == [False, True, False, False, False]


def test_a_linear_model_is_climbed_to_the_end() -> None:
    """Ten steps of a quarter of eps lead from anywhere to a corner of the ball, and there the loss stays."""
    assert unfinished(shared(Linear())) == 0.0


def test_a_search_that_gets_nowhere_in_so_many_steps_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indicators, "PGD_CE", PGD(steps=20, step_size="1/100000"))
    assert unfinished(shared(Linear())) == 1.0


def test_without_survivors_there_is_nothing_to_finish() -> None:
    assert unfinished(shared(Linear(), broken=0.9, count=20)) is not None
    under = shared(Linear(), count=20)
    under._known[(repr(PGD_CE), str(under.target.threat), 1.0)] = torch.zeros(20, dtype=torch.bool)
    assert unfinished(under) is None


def test_the_path_is_that_of_the_attack() -> None:
    """Its last point is the one of the engine, and the batch size does not matter."""
    under = shared(Linear(), count=30)
    target = under.target.subset(under.robust(PGD_CE))
    some = Target(model=target.model, data=target.data, threat=target.threat, batch_size=4)
    (whole,), parts = indicators._losses_on_paths(target), indicators._losses_on_paths(some)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    found = run(target.model, PGD_CE, target.threat, target.images, target.labels, index=target.index)
    logits = target.predict(found.adversarial)
    highest = nn.functional.cross_entropy(logits, target.labels, reduction="none")
    torch.testing.assert_close(whole.amax(dim=0), highest)


@pytest.mark.parametrize("threat", [Linf("0.1"), L2("0.5")], ids=str)
def test_a_linear_loss_changes_by_a_fiftieth(threat: Linf | L2) -> None:
    x = images(10)
    model = Linear(classes=2)
    target = Target(model=model, data=(x, model(x).argmax(dim=1)), threat=threat)
    assert roughness(target) == pytest.approx(0.02, rel=1e-3)


def test_a_loss_that_jumps_changes_nearby_as_much_as_far_away() -> None:
    def rough(change: object) -> float:
        model = Behind(change)  # type: ignore[arg-type]
        x = images(40)
        found = roughness(Target(model=model, data=(x, torch.zeros(40).long()), threat=Linf("0.05")))
        assert found is not None
        return found

    assert rough(lambda x: x + 0.05 * torch.sin(1e4 * x)) > 0.5
    assert 0.05 < rough(rounded) < 0.5
    assert rough(lambda x: x.tanh()) < 0.03


def test_a_constant_has_no_roughness() -> None:
    model = Behind(torch.zeros_like)
    assert roughness(Target(model=model, data=(images(4), torch.zeros(4).long()), threat=Linf("0.1"))) is None


def test_the_first_64_images_are_enough() -> None:
    class Counting(Linear):
        seen = 0

        def forward(self, x: Tensor) -> Tensor:
            Counting.seen += len(x)
            return super().forward(x)

    x = images(80)
    target = Target(model=Counting(), data=(x, torch.zeros(80).long()), threat=Linf("0.1"))
    first = roughness(target)
    assert Counting.seen == MOST_EXAMPLES * 9
    assert roughness(target.subset(slice(MOST_EXAMPLES))) == first
