from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar import epsilon
from soar.errors import UserError


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=100))
def test_what_is_shown_reads_back_exactly(ratio: Fraction) -> None:
    assert epsilon.parse(epsilon.show(ratio)) == ratio


@given(st.integers(1, 255))
def test_gray_levels_are_kept(level: int) -> None:
    assert epsilon.parse(f"{level}/255") == epsilon.parse(level / 255) == Fraction(level, 255)


@pytest.mark.parametrize(
    "size, shown",
    [
        ("8/255", "8/255"),
        ("5/255", "5/255"),
        (" 8 / 255 ", "8/255"),
        (0.031, "0.031"),
        (1.74, "1.74"),
        (8 / 255, "8/255"),
        (0.2, "0.2"),
        (8.5 / 255, str(Fraction(str(8.5 / 255)))),
    ],
)
def test_sizes_print_as_people_write_them(size: epsilon.Ratio, shown: str) -> None:
    assert epsilon.show(epsilon.parse(size)) == shown


@pytest.mark.parametrize("size", ["eight", "", "8/0", "nan", "inf", float("nan"), "8//255"])
def test_nonsense_is_refused_by_name(size: epsilon.Ratio) -> None:
    with pytest.raises(UserError, match=r"attack.step_size: got .*, expected a positive number"):
        epsilon.parse(size, "attack.step_size")


@pytest.mark.parametrize("size", [0, -1, "-8/255", 0.0])
def test_sizes_must_be_above_zero(size: epsilon.Ratio) -> None:
    with pytest.raises(UserError, match=r"eps: got .*, expected a number above 0 \(flag --eps\)"):
        epsilon.parse(size)


@pytest.mark.parametrize(
    "size", ["1e-999999999", "1e9999999", "1e1_000_000_000", "9" * 10_000, 10**5000], ids=type
)
def test_a_size_that_would_take_forever_to_read_is_refused(size: Any) -> None:
    with pytest.raises(UserError, match=r"^eps: got .*, expected a positive number such as 8/255"):
        epsilon.parse(size)


@pytest.mark.parametrize("size", ["1e-40", 1e300, Fraction(1, 10**400), Fraction(10**400)], ids=type)
def test_a_size_that_float32_cannot_hold_is_refused(size: Any) -> None:
    with pytest.raises(UserError, match=r"^eps: got .*, expected from 1e-30 to 1e30 \(flag --eps\)$"):
        epsilon.parse(size)
