from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from soar.attacks import APGD, FAB, PGD, Planned, SimBA, Square
from soar.errors import UserError


@pytest.mark.parametrize("value", [2.5, "20", None, [1]])
@pytest.mark.parametrize(
    "build, name",
    [
        (PGD, "steps"),
        (PGD, "targets"),
        (APGD, "restarts"),
        (FAB, "steps"),
        (Square, "queries"),
        (SimBA, "queries"),
    ],
)
def test_half_a_step_and_text_are_refused(build: Any, name: str, value: Any) -> None:
    with pytest.raises(UserError) as told:
        build(**{name: value})
    assert str(told.value) == f"attack.{name}: got {value!r}, expected a whole number"


def test_whole_numbers_of_other_libraries_will_do() -> None:
    assert PGD(steps=np.int64(3)).steps == 3  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"attack\.samples: got 0, expected at least 1"):
        Planned(PGD(), samples=0)
