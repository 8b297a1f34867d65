from __future__ import annotations

import pytest

from soar.text import duration


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0.0 s"),
        (59.4, "59 s"),
        (59.6, "1:00 min"),
        (3_599.4, "59:59 min"),
        (3_599.6, "1:00 h"),
        (172_799, "48:00 h"),
        (172_800, "2.0 days"),
        (7e7, "2 years"),
    ],
)
def test_a_duration_is_rounded_before_its_unit_is_chosen(seconds: float, text: str) -> None:
    assert duration(seconds) == text
