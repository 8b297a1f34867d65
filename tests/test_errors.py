from __future__ import annotations

from soar.errors import unknown


def test_a_close_name_is_suggested_and_a_long_list_left_out() -> None:
    many = [f"option{number}" for number in range(30)]
    assert str(unknown("option", "optoin3", many, "x")).endswith("did you mean 'option3'?")
    assert str(unknown("option", "zzz", ["a", "b"], "x")) == "unknown option 'zzz' (x). Allowed: a, b"
    assert "Allowed: option0" in str(unknown("option", "zzz", many, "x"))
