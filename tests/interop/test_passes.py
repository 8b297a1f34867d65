from __future__ import annotations

import torch
from torch import Tensor, nn

from soar.interop.passes import Passes


class Listed(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [x, x * 2]


def test_predictions_and_gradients_are_counted_by_sample() -> None:
    model = nn.Linear(2, 3)
    with Passes(model) as passes, torch.no_grad():
        model(torch.ones(4, 2))
    assert (passes.forward, passes.backward) == (4, 0)
    with Passes(model) as passes:
        model(torch.ones(4, 2)).sum().backward()
        model(torch.ones(1, 2))
    assert (passes.forward, passes.backward) == (5, 4)


def test_a_list_of_outputs_ends_with_the_logits() -> None:
    model = Listed()
    with Passes(model) as passes:
        model(torch.ones(4, 2, requires_grad=True))[-1].sum().backward()
    assert (passes.forward, passes.backward) == (4, 4)


def test_nothing_is_counted_afterwards() -> None:
    model = nn.Flatten()
    with Passes(model) as passes:
        pass
    model(torch.ones(4, 2))
    assert passes.forward == 0 and not model._forward_hooks
