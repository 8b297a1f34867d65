from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from soar.recipes.settings import GuardSettings
from soar.training.guards import Guards
from soar.training.standing import Standing
from soar.training.validation import Scores

shares = st.floats(0, 1)
scores = st.builds(Scores, st.integers(1, 10**6), shares, st.none() | shares)


def guards() -> Guards:
    return Guards(GuardSettings())


@given(st.integers(0, 10**6), st.none() | scores, st.none() | scores, st.none() | shares)
def test_it_comes_back_from_json_as_it_was(
    step: int, best: Scores | None, last: Scores | None, robust: float | None
) -> None:
    before = Standing(Guards(GuardSettings(), 0.5, robust, robust), step, best, last)
    after = Standing(guards())
    after.restore(json.loads(json.dumps(before.state())))
    assert after == before


@given(st.lists(shares, min_size=1))
def test_the_best_is_the_first_of_the_highest(robust: list[float]) -> None:
    standing = Standing(guards())
    for step, share in enumerate(robust):
        standing.validated(Scores(step, 0.5, share), "robust")
    assert standing.best is not None
    assert standing.best.step == robust.index(max(robust))
    assert standing.last == Scores(len(robust) - 1, 0.5, robust[-1])
