from __future__ import annotations

import pytest
import torch

from soar.attacks import FGSM, PGD, Transfer, check_attack, run
from soar.attacks.transfer import survives, transfer_points
from soar.errors import UserError
from soar.threat import Linf
from tests.attacks.problems import SHAPE, Linear, TinyNet, images


def test_points_of_a_linear_source_are_its_worst_corner() -> None:
    source, threat = Linear(), Linf("0.1")
    x = images(6)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    points = transfer_points(source, FGSM(), threat, x, labels, index=torch.arange(6), batch_size=4)
    away = (source.weight[1 - labels] - source.weight[labels]).detach()
    torch.testing.assert_close(points, (x + 0.1 * away.sign()).clamp(0, 1))


def test_points_use_the_whole_budget_also_where_the_source_is_fooled_early() -> None:
    source, threat, x = TinyNet(), Linf("0.3"), images(8)
    labels = (source(x).argmax(dim=1) + 1) % 5
    points = transfer_points(source, PGD(steps=20), threat, x, labels, index=torch.arange(8))
    inside = (points > 0) & (points < 1)
    moved = (points - x).abs()
    assert threat.contains(points, x).all()
    assert (moved[inside] > 0.29).to(torch.float64).mean() > 0.5, "wrong from the beginning, yet pushed on"


def test_points_do_not_depend_on_the_batch_size() -> None:
    source, threat, x = TinyNet(), Linf("0.1"), images(9)
    labels = torch.arange(9) % 5
    one, nine = (
        transfer_points(source, PGD(steps=3), threat, x, labels, index=torch.arange(9), batch_size=size)
        for size in (1, 9)
    )
    torch.testing.assert_close(one, nine)


def test_survives_compares_predictions_with_labels() -> None:
    target = Linear(classes=3)
    x = images(7)
    correct = target(x).argmax(dim=1)
    labels = torch.where(torch.arange(7) < 3, correct, (correct + 1) % 3)
    assert survives(target, x, labels, batch_size=2).tolist() == [True] * 3 + [False] * 4
    assert x.shape[1:] == SHAPE


def test_the_attack_shows_the_points_of_its_source_once() -> None:
    source, target, threat, x = TinyNet(seed=1), TinyNet(), Linf("0.1"), images(12)
    labels = target(x).argmax(dim=1)
    attack = Transfer(source=source, source_name="other", attack=PGD(steps=5))
    assert attack.label == "PGD-5 from other"
    found = run(target, attack, threat, x, labels, seed=3, batch_size=5)
    points = transfer_points(source, PGD(steps=5), threat, x, labels, index=torch.arange(12), seed=3)
    assert torch.equal(found.robust, survives(target, points, labels))
    assert torch.equal(found.adversarial, points)
    assert (found.forward == 2).all() and not found.backward.any()


class AnySource(torch.nn.Module):
    """Prefers bright pixels here and dark ones there, whatever the size of the image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        return torch.stack([flat[:, k::10].sum(dim=1) for k in range(10)], dim=1)


def test_the_contract_is_kept_whatever_the_source() -> None:
    check_attack(Transfer(source=AnySource(), attack=PGD(steps=2)))


def test_attacks_with_several_ends_cannot_be_shown() -> None:
    with pytest.raises(UserError, match="got PGD-20 x2, expected one start and no targets"):
        Transfer(source=TinyNet(), attack=PGD(restarts=2))


def test_any_attack_with_one_end_can_be_shown() -> None:
    source, target, x = TinyNet(seed=1), TinyNet(), images(6)
    labels = target(x).argmax(dim=1)
    found = run(target, Transfer(source=source, attack=FGSM()), Linf(0.1), x, labels)
    points = transfer_points(source, FGSM(), Linf(0.1), x, labels, index=torch.arange(6))
    assert torch.equal(found.adversarial, points)
