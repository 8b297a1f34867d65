"""An attack that passes over an adversarial point without returning it would overstate robustness."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from soar.attacks import ATTACKS, PGD, perturb, run
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import SHAPE, TinyNet, images, said
from tests.attacks.test_contract import OURS, SMALL

LOW, HIGH = 0.57, 0.63


class Shell(nn.Module):
    """Wrong only where the mean of the pixels lies between two numbers; the gradient leads beyond."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.flatten(1).mean(dim=1)
        lead = mean - mean.detach() + 2 * ((mean > LOW) & (mean < HIGH)) - 1
        return torch.stack([-lead, lead], dim=1)


class Seen(nn.Module):
    """Keeps every point that a model was asked about, and its prediction there."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.points: list[Tensor] = []
        self.predictions: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        self.points.append(x.detach().clone())
        self.predictions.append(logits.detach().argmax(dim=1))
        return logits


def test_an_adversarial_point_on_the_way_is_returned_although_the_way_leads_beyond() -> None:
    x, labels = torch.full((3, *SHAPE), 0.5), torch.zeros(3, dtype=torch.int64)
    attack, threat = PGD(steps=6, step_size=0.1, random_start=False), Linf(0.4)
    index = torch.arange(3)
    end = perturb(Shell(), attack, threat, x, labels, index=index, seed=0, step=0)
    assert torch.equal(said(Shell(), end), labels), "the end of the way fools nobody"
    found = run(Shell(), attack, threat, x, labels)
    assert not found.robust.any() and (found.forward == 2).all()
    torch.testing.assert_close(found.adversarial, x + 0.1, rtol=0, atol=1e-6)
    assert torch.equal(said(Shell(), found.adversarial), 1 - labels)


@pytest.mark.parametrize("threat", [Linf("1/10"), L2("1/4")], ids=str)
@pytest.mark.parametrize("name", [one.name for one in OURS])
def test_no_attack_sees_an_adversarial_point_and_calls_the_image_robust(name: str, threat: Threat) -> None:
    x, model = images(16), Seen(TinyNet())
    labels = said(TinyNet(), x)
    found = run(model, ATTACKS[name].build(**SMALL[name]), threat, x, labels, batch_size=5)
    points, predictions = torch.cat(model.points), torch.cat(model.predictions)
    seen = [
        bool((threat.contains(points, one.expand_as(points)) & (predictions != label)).any())
        for one, label in zip(x, labels, strict=True)
    ]
    assert torch.equal(found.robust, ~torch.tensor(seen))
    assert bool((~found.robust).any()), "otherwise nothing is shown"
