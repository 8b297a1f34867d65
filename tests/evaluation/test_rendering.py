"""What people see of a result: printed, in a notebook, and as one line in a list."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from soar.evaluation import Assessment, Diagnosis
from soar.evaluation.table import table, verdict_table
from tests.evaluation.test_assessment import assessment, diagnosis

HOSTILE = "<script>alert(1)</script>&[red]a[/b]:smile:\x1b[2J\x1b]8;;evil\x07\u202e\n\rclean 100.0%\t"
VISIBLE = r"<script>alert(1)</script>&[red]a[/b]:smile:\x1b[2J\x1b]8;;evil\x07\u202e"


def hostile() -> list[Assessment | Diagnosis]:
    evidence = replace(diagnosis().checks[0], title=HOSTILE, sentence=HOSTILE, rule=HOSTILE)
    attacks = tuple(replace(one, label=one.label + HOSTILE) for one in assessment().attacks)
    return [
        replace(assessment(), model=HOSTILE, data=HOSTILE, attacks=attacks),
        replace(diagnosis(), model=HOSTILE, data=HOSTILE, checks=(evidence,)),
    ]


def printed(renderable: object) -> str:
    """What the command line shows in a terminal of the same width, without colors."""
    written = io.StringIO()
    Console(width=110, file=written).print(renderable)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()).strip("\n")


class Reader(HTMLParser):
    """Collects the elements, their attributes and the text of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("found", [assessment(), diagnosis(), *hostile()])
def test_printing_shows_what_the_command_line_shows(found: Assessment | Diagnosis) -> None:
    expected = table(found) if isinstance(found, Assessment) else verdict_table(found)
    assert str(found) == f"{found}" == printed(expected)


def test_printed_tables_have_their_numbers() -> None:
    assert re.search(r"worst case +20\.0% +3\.6 to 62\.4", str(assessment()))
    assert "verdict: masked - attacks were misled" in str(diagnosis())


def test_a_representation_is_one_short_line() -> None:
    assert repr(assessment()) == (
        "<Assessment: net on 5 images of things, linf 8/255: 80.0% clean, 20.0% worst case>"
    )
    assert repr(diagnosis()) == "<Diagnosis: net on 5 images of things, linf 8/255: masked>"


@pytest.mark.parametrize("found", hostile())
def test_names_cannot_steer_a_terminal(found: Assessment | Diagnosis) -> None:
    assert repr(found).isprintable() and VISIBLE in repr(found)
    assert all(line.isprintable() for line in str(found).splitlines())
    assert VISIBLE in str(found).replace("\n", "")
    assert not any(line.startswith("clean 100") for line in str(found).splitlines())


@pytest.mark.parametrize("found", [assessment(), diagnosis(), *hostile()])
def test_a_notebook_gets_the_same_text_and_nothing_from_elsewhere(found: Assessment | Diagnosis) -> None:
    html = found._repr_html_()
    read = Reader(html)
    assert read.tags <= {"pre", "span"} and read.attributes == {"style"}
    assert "url(" not in html and "http" not in html
    lines = [line.rstrip() for line in read.text.strip("\n").splitlines()]
    assert "\n".join(lines).strip("\n") == str(found)


def test_a_notebook_is_not_shown_the_table_a_second_time(capsys: pytest.CaptureFixture[str]) -> None:
    str(assessment())
    assessment()._repr_html_()
    assert capsys.readouterr().out == ""
