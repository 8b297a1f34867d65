from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from soar import values
from soar.errors import UserError


@pytest.mark.parametrize("value", [True, 1.0, "1", None, torch.tensor(1), [1], 10**30, 10**5000, 0], ids=type)
def test_what_is_not_a_whole_number_in_range_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match=r"^steps: got .*, expected .* \(flag --steps\)$"):
        values.whole(value, "steps", least=1)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    values.whole(np.int64(2), "steps", least=1)
    values.whole(-5, "seed")


@pytest.mark.parametrize(
    "value", [True, "1", None, 1j, torch.tensor(1.0), 10**5000, Fraction(10**400)], ids=type
)
def test_what_no_float_can_hold_is_not_a_number(value: Any) -> None:
    with pytest.raises(UserError, match=r"^weight: got .*, expected a number"):
        values.number(value, "weight")


@pytest.mark.parametrize("value", [None, 5, b"x", "\x00", "a\nb", "x" * 5000], ids=type)
def test_what_cannot_name_a_file_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match=r"^path: got .*, expected the name of a file or folder$"):
        values.place(value, "path")
    assert values.place("runs/é 1", "path") == Path("runs/é 1")
