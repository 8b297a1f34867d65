from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.distributed import World
from soar.recipes.settings import ValidationSettings
from soar.threat import Linf
from soar.training.validation import Scores, selection_rule, validate
from tests.training import small


class Brightness(nn.Module):
    """Says 1 for images whose mean is above 0.3; the exact robust accuracy is therefore known."""

    def forward(self, x: Tensor) -> Tensor:
        excess = x.flatten(1).mean(dim=1) - 0.3
        return torch.stack([-excess, excess], dim=1)


@pytest.mark.parametrize("radius", [0.02, 0.05, 0.25])
def test_accuracies_of_a_linear_classifier(radius: float) -> None:
    held_out = small.split(100, first=7)
    mean = held_out.images.double().flatten(1).mean(dim=1) / 255
    right = (mean > 0.3) == (held_out.labels == 1)
    robust = right & ((mean - 0.3).abs() > radius)
    scores = validate(Brightness(), held_out, Linf(radius), ValidationSettings(), step=3)
    assert scores == Scores(3, right.double().mean().item(), robust.double().mean().item())
    assert 0 < robust.sum() < right.sum() < 100


def test_without_a_threat_only_clean_accuracy_is_measured() -> None:
    held_out = small.split(100, first=7)
    attacked = validate(Brightness(), held_out, Linf(0.1), ValidationSettings(), step=0)
    scores = validate(Brightness(), held_out, None, ValidationSettings(batch_size=7), step=0)
    assert scores == Scores(0, attacked.clean, None)


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.BatchNorm2d(1), small.network())
    before = {name: x.clone() for name, x in model.state_dict().items()}
    for threat in (None, Linf("8/255")):
        validate(model, small.split(10), threat, ValidationSettings(steps=2), step=0)
    assert model.training
    assert small.same(dict(model.state_dict()), before)


def test_shards_see_the_same_attack_as_the_whole() -> None:
    """Each process attacks its part, and an example meets the same attack in any of them."""
    held_out, threat, model = small.split(11), Linf("40/255"), small.network()
    settings = ValidationSettings(steps=3)
    whole = validate(model, held_out, threat, settings, step=0, seed=4)

    class OneOf(World):
        def gather(self, value: list[int]) -> list[list[int]]:
            return [value]

    parts = [
        validate(model, held_out, threat, settings, step=0, seed=4, world=OneOf(rank, 3)) for rank in range(3)
    ]
    assert sum(part.clean for part in parts) == pytest.approx(whole.clean)
    assert sum(part.robust or 0 for part in parts) == pytest.approx(whole.robust)


def test_scores_compare_by_the_selecting_accuracy() -> None:
    old, new = Scores(1, 0.8, 0.3), Scores(2, 0.7, 0.4)
    assert new.beats(old, "robust")
    assert not new.beats(old, "clean")
    assert not Scores(2, 0.9, 0.3).beats(old, "robust"), "the earlier wins a tie"
    assert Scores(0, 0.0, 0.0).beats(None, "robust")
    assert Scores(2, 0.9, None).beats(Scores(1, 0.8, None), "robust")


def test_the_rule_in_words() -> None:
    settings, threat = ValidationSettings(steps=20, loss="margin", restarts=2), Linf("8/255")
    assert selection_rule(small.split(5), threat, settings) == (
        "best checkpoint: highest robust accuracy under PGD-20 margin x2 within linf 8/255 "
        "on 5 held-out examples, the earlier on a tie"
    )
    assert selection_rule(small.split(5), None, settings) == (
        "best checkpoint: highest clean accuracy (there is no threat to measure robust accuracy "
        "under) on 5 held-out examples, the earlier on a tie"
    )
    assert "no held-out examples" in selection_rule(small.split(0), threat, settings)
