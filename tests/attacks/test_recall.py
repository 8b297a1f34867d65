from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from soar.attacks import PGD, perturb
from soar.attacks.recall import Recall, recalled
from soar.threat import Linf
from tests.attacks.problems import Passes, images, said


def never() -> str:
    raise AssertionError("this search was not to be run")


def always(found: str) -> Callable[[], str]:
    return lambda: found


def test_without_a_recall_every_search_runs() -> None:
    assert [recalled(always(name)) for name in "ab"] == ["a", "b"]


def test_results_come_back_in_their_order_without_a_search() -> None:
    recall = Recall()
    with recall.recording():
        assert [recalled(always(name)) for name in "abc"] == ["a", "b", "c"]
    with recall.replaying():
        assert [recalled(never) for _ in "abc"] == ["a", "b", "c"]


def test_what_was_given_back_is_forgotten_and_more_can_be_noted() -> None:
    recall = Recall()
    for name in "ab":
        with recall.recording():
            recalled(always(name))
        with recall.replaying():
            assert recalled(never) == name
    with recall.replaying(), pytest.raises(IndexError):
        recalled(never)


def test_outside_searches_run_again_and_are_not_noted() -> None:
    recall = Recall()
    with recall.recording():
        recalled(always("a"))
    assert recalled(always("b")) == "b"
    with recall.replaying():
        assert recalled(never) == "a"
    assert recalled(always("c")) == "c"


@pytest.mark.parametrize("kind", ["recording", "replaying"])
def test_an_exception_ends_it(kind: str) -> None:
    recall = Recall()
    with recall.recording():
        recalled(always("a"))
    with pytest.raises(KeyError), getattr(recall, kind)():
        raise KeyError
    assert recalled(always("b")) == "b"
    with recall.replaying():
        assert recalled(never) == "a"


def test_a_search_that_fails_is_not_noted() -> None:
    recall = Recall()
    with recall.recording():
        with pytest.raises(AssertionError):
            recalled(never)
        recalled(always("a"))
    with recall.replaying():
        assert recalled(never) == "a"


def test_the_innermost_recall_answers() -> None:
    outer, inner = Recall(), Recall()
    with outer.recording():
        with inner.recording():
            recalled(always("inner"))
        recalled(always("outer"))
    with inner.replaying():
        assert recalled(never) == "inner"
    with outer.replaying():
        assert recalled(never) == "outer"


def test_a_search_inside_a_search_is_part_of_it() -> None:
    recall = Recall()
    with recall.recording():
        recalled(lambda: "outer around " + recalled(always("inner")))
        recalled(always("next"))
    with recall.replaying():
        assert [recalled(never), recalled(never)] == ["outer around inner", "next"]


def test_an_attack_is_paid_for_once_whatever_happens_to_the_weights() -> None:
    model, x = Passes(), images(4)
    y = said(model.model, x)
    index = torch.arange(4)

    def attacked() -> Tensor:
        return perturb(model, PGD(steps=3), Linf(0.1), x, y, index=index, seed=1, step=2)

    recall = Recall()
    with recall.recording():
        points = attacked()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.neg_()
    with recall.replaying():
        assert torch.equal(attacked(), points)
    assert len(model.modes) == 3
    assert not torch.equal(attacked(), points)
    assert len(model.modes) == 6
