"""Models compiled by `torch.compile` train with every objective, and stay compiled elsewhere."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from soar.objectives import FOAR, OBJECTIVES, SOAR, Objective
from soar.threat import Linf
from tests.attacks.problems import images
from tests.objectives.test_every_layer import TWICE

# PyTorch warns of this where a compiled model is called; as an error it would stop the compiler.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)

X, Y, INDEX = images(4).float(), torch.tensor([0, 1, 2, 0]), torch.arange(4)


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 2), nn.SiLU(), nn.Flatten(), nn.Linear(24, 3))


def compiled(plain: nn.Sequential, how: str) -> nn.Module:
    """The same weights in a compiled model, in one with a compiled part, and compiled in place."""
    if how == "whole":
        whole: Any = torch.compile(plain, backend="aot_eager")
        return whole  # type: ignore[no-any-return]
    if how == "part":
        part: Any = torch.compile(plain[:3], backend="aot_eager")
        return nn.Sequential(part, plain[3])
    plain.compile(backend="aot_eager")
    return plain


@pytest.mark.parametrize("name", [pytest.param("nfgsm", marks=pytest.mark.slow), *TWICE])
def test_a_compiled_model_has_the_loss_and_gradient_of_the_plain_one(name: str) -> None:
    plain, other = network(), network()
    model = compiled(other, "whole")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        made = OBJECTIVES[name].build(model, Linf("1/10"))
    assert [str(one.message).startswith("model: is compiled, but ") for one in caught] == [True] * (
        name in TWICE
    )
    expected = OBJECTIVES[name].build(plain, Linf("1/10"))(X, Y, INDEX, 0).loss
    found = made(X, Y, INDEX, 0).loss
    torch.testing.assert_close(found, expected)
    found.backward()
    expected.backward()
    for one, its in zip(other.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, its.grad)


@pytest.mark.parametrize("how", ["part", "in place"])
@pytest.mark.parametrize("kind", [SOAR, FOAR])
def test_what_is_compiled_in_part_or_in_place_is_run_as_it_was_written(
    kind: type[Objective], how: str
) -> None:
    model = compiled(network(), how)
    with pytest.warns(
        UserWarning, match=r"^model: is compiled, but .*, because compiled code has one"
    ) as told:
        made = kind(model, Linf("1/10"))
    assert [one.filename for one in told] == [__file__], "it points to the caller's line"
    made(X, Y, INDEX, 0).loss.backward()
    assert all(one.grad is not None for one in model.parameters())


def test_outside_of_an_objective_it_stays_compiled() -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    model: Any = torch.compile(network(), backend=counter)
    with pytest.warns(UserWarning, match=r"^model: is compiled"):
        SOAR(model, Linf("1/10"))(X, Y)
    assert counter.frame_count == 0
    model(X)
    assert counter.frame_count == 1
