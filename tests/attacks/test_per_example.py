"""A model that is another one for every example, as the engine asks it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import APGD, PGD, Attack, Square, run
from soar.attacks.attack import Examples
from soar.attacks.oracle import PerExample, logits_at
from soar.errors import UserError
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import Linear, TinyNet, images, said
from tests.attacks.test_engine import OutsideLiar

COUNT = 12


class Ensemble(PerExample):
    """One network for each row."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        return torch.cat([self.models[row](x[i : i + 1]) for i, row in enumerate(rows.tolist())])


def networks() -> list[nn.Module]:
    return [TinyNet(seed=seed) for seed in range(COUNT)]


def own_labels(models: list[nn.Module], x: Tensor) -> Tensor:
    return torch.cat([said(model, x[i : i + 1]) for i, model in enumerate(models)])


@pytest.mark.parametrize(
    ("attack", "threat"),
    [
        (PGD(steps=4, restarts=3), Linf(0.08)),
        (PGD(steps=4, loss="margin", targets=2), L2(0.2)),
        (APGD(steps=5), Linf(0.08)),
        (Square(queries=20), Linf(0.3)),
    ],
    ids=lambda one: str(getattr(one, "label", one)),
)
@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_every_example_is_attacked_on_its_own_model(
    attack: Attack[Any],
    threat: Threat,
    batch_size: int,
) -> None:
    models, x = networks(), images(COUNT)
    labels = own_labels(models, x)
    with torch.no_grad():
        clean = Ensemble(models)(x, torch.arange(COUNT))
    found = run(Ensemble(models), attack, threat, x, labels, clean_logits=clean, batch_size=batch_size)
    assert 0 < int(found.robust.sum()) < COUNT
    for i, model in enumerate(models):
        rows = slice(i, i + 1)
        alone = run(
            model, attack, threat, x[rows], labels[rows], index=torch.tensor([i]), clean_logits=clean[rows]
        )
        assert torch.equal(alone.robust, found.robust[rows])
        assert torch.equal(alone.predictions, found.predictions[rows])
        torch.testing.assert_close(alone.adversarial, found.adversarial[rows], rtol=0, atol=1e-9)


def test_rows_are_places_and_not_names() -> None:
    models, x = networks(), images(COUNT)
    labels, order = own_labels(models, x), torch.arange(COUNT).flip(0)
    clean = torch.nn.functional.one_hot(labels, 5).double()
    attack = PGD(steps=4)
    straight = run(Ensemble(models), attack, Linf(0.08), x, labels, clean_logits=clean)
    turned = run(
        Ensemble([models[i] for i in order]),
        attack,
        Linf(0.08),
        x[order],
        labels[order],
        index=order,
        clean_logits=clean[order],
    )
    assert torch.equal(turned.robust[order], straight.robust)
    torch.testing.assert_close(turned.adversarial[order], straight.adversarial, rtol=0, atol=1e-9)


def test_a_claim_from_outside_of_the_ball_is_confirmed_by_the_example_s_own_model() -> None:
    models: list[nn.Module] = [Linear(seed=seed) for seed in range(COUNT)]
    x = images(COUNT)
    labels = own_labels(models, x)
    nearest = min(
        float(model.distances(x[i : i + 1], labels[i : i + 1], dual=1))
        for i, model in enumerate(models)
        if isinstance(model, Linear)
    )
    clean = torch.nn.functional.one_hot(labels, 2).double()
    found = run(Ensemble(models), OutsideLiar(steps=3), Linf(0.9 * nearest), x, labels, clean_logits=clean)
    assert found.robust.all()


def test_the_model_is_told_the_rows_and_logits_are_precise() -> None:
    class Rows(PerExample):
        def forward(self, x: Tensor, rows: Tensor) -> Tensor:
            return torch.stack([rows, -rows], dim=1).bfloat16()

    some = Examples.of(images(3), torch.zeros(3, dtype=torch.int64))
    assert logits_at(Rows(), some.x, some).tolist() == [[0.0, 0.0], [1.0, -1.0], [2.0, -2.0]]
    assert logits_at(Rows(), some.x, some).dtype == torch.float32
    assert torch.equal(logits_at(nn.Flatten(), some.x, some), some.x.flatten(1))


def test_without_clean_logits_it_is_refused_in_a_line() -> None:
    models, x = networks(), images(COUNT)
    with pytest.raises(UserError, match="model: fails on 12 images"):
        run(Ensemble(models), PGD(steps=2), Linf(0.08), x, own_labels(models, x))
