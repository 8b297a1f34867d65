from __future__ import annotations

import pytest

from soar.errors import printable, unknown


def test_a_close_name_is_suggested_and_a_long_list_left_out() -> None:
    many = [f"option{number}" for number in range(30)]
    assert str(unknown("option", "optoin3", many, "x")).endswith("did you mean 'option3'?")
    assert str(unknown("option", "zzz", ["a", "b"], "x")) == "unknown option 'zzz' (x). Allowed: a, b"
    assert "Allowed: option0" in str(unknown("option", "zzz", many, "x"))


@pytest.mark.parametrize(
    "text, line",
    [
        ("as it is: é 💥 'x'", "as it is: é 💥 'x'"),
        ("a\nb\r\tc\u2028d", "a b  c d"),
        ("\x1b[2J\x07\x00\x9b", "\\x1b[2J\\x07\\x00\\x9b"),
        ("\u202e\udcff\U000e0001", "\\u202e\\udcff\\U000e0001"),
    ],
)
def test_text_is_made_one_line_without_control_characters(text: str, line: str) -> None:
    assert printable(text) == line and line.isprintable()
