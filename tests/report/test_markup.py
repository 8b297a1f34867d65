"""Text cannot become markup, whatever it holds."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from soar.report.markup import Html, embedded, join, tag
from tests.report.made import HOSTILE
from tests.report.reading import read

# A parser may fold these into others, which says nothing about escaping.
texts = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]))


@given(texts, texts)
def test_what_is_read_back_is_what_was_written(text: str, value: str) -> None:
    (element,) = read(tag("p", text, title=value)).all()
    assert element.text == text and element.attributes == {"title": value}


@given(st.lists(texts))
def test_embedded_values_cannot_end_their_element(values: list[str]) -> None:
    written = embedded([*values, HOSTILE])
    assert written.count("<") == 2  # those of the element itself
    (element,) = read(written).all("script")
    assert json.loads(element.text) == [*values, HOSTILE]


def test_what_is_html_stays_and_nothing_is_left_out() -> None:
    assert join("a<", Html("<b>"), 0, None) == "a&lt;<b>0"
    assert tag("input", type="range", value=0, hidden=False, min=None) == '<input type="range" value="0">'
    assert tag("th", aria_sort="none", for_="x") == '<th aria-sort="none" for="x"></th>'
