from __future__ import annotations

import torch

from soar.objectives import Standard
from tests.attacks.problems import Linear, images, said


def test_loss_is_the_mean_negative_log_probability() -> None:
    model, x = Linear(classes=3), images(5)
    y = said(model, x)
    p = model(x).softmax(dim=1)
    expected = -torch.stack([p[i, y[i]].log() for i in range(5)]).mean()
    found = Standard(model)(x, y)
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(found.logits, model(x).detach())
