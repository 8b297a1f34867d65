from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.errors import FileError, UserError, printable, unknown


def test_a_close_name_is_suggested_and_a_long_list_left_out() -> None:
    many = [f"option{number}" for number in range(30)]
    assert str(unknown("option", "optoin3", many, "x")).endswith("did you mean 'option3'?")
    assert str(unknown("option", "zzz", ["a", "b"], "x")) == "unknown option 'zzz' (x). Allowed: a, b"
    assert "Allowed: option0" in str(unknown("option", "zzz", many, "x"))


@given(st.text(st.characters(exclude_categories=())))
def test_printable_text_is_one_line_that_no_terminal_takes_for_a_command(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable() and len(shown.splitlines()) <= 1
    assert shown.encode().decode() == shown
    assert printable(shown) == shown
    assert str(UserError(text)) == shown


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S"])))
def test_letters_and_signs_stay(text: str) -> None:
    assert printable(text) == text


@given(st.text(), st.integers(3, 50))
def test_a_long_text_is_cut(text: str, longest: int) -> None:
    shown = printable(text, longest)
    assert shown == printable(text) if len(text) <= longest else shown.endswith("...")


@pytest.mark.parametrize(
    "bad",
    [
        "\x1b[31m",
        "\n",
        "\r",
        "\x00",
        "\x7f",
        "\x9b",
        "\u2028",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\udc80",
        "\x85",
    ],
)
def test_what_a_terminal_would_act_on_becomes_visible(bad: str) -> None:
    assert printable(f"a{bad}b") == f"a{' ' if bad.isspace() else repr(bad)[1:-1]}b"
    assert str(FileError(f"a{bad}b")) == printable(f"a{bad}b")
