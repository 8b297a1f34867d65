"""What people see of a result: printed, in a notebook, and as one line in a list."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import soar
from soar.evaluation import AdversarialExamples, Assessment, Curve, compare
from soar.evaluation.rendering import Rendered, as_html
from soar.evaluation.table import (
    STYLES,
    attack_table,
    certificate_table,
    comparison_table,
    curve,
    table,
    verdict_table,
)
from soar.threat import Linf
from tests.evaluation.test_assessment import assessment, diagnosis
from tests.evaluation.test_compare import other
from tests.evaluation.test_shapes import certificate

HOSTILE = "<script>alert(1)</script>&[red]a[/b]:smile:\x1b[2J\x1b]8;;evil\x07\u202e\n\rclean 100.0%\t"
VISIBLE = r"<script>alert(1)</script>&[red]a[/b]:smile:\x1b[2J\x1b]8;;evil\x07\u202e"


def attacked(eps: str = "8/255", label: str = "PGD-20") -> AdversarialExamples:
    """Four images, of which three are classified correctly and one stays so."""
    flags = [torch.tensor([one == "1" for one in text]) for text in ("1101", "1110")]
    counts = [torch.tensor(one) for one in ([3, 5, 1, 7], [2, 4, 0, 6])]
    images, predictions = torch.rand(4, 1, 2, 2), torch.tensor([1, 1, 1, 0])
    tensors: list[Tensor] = [images, flags[0], predictions, flags[1], *counts]
    return AdversarialExamples(Linf(eps), (label,), *tensors)


def hostile() -> list[Rendered]:
    evidence = replace(diagnosis().checks[0], title=HOSTILE, sentence=HOSTILE, rule=HOSTILE)
    attacks = tuple(replace(one, label=one.label + HOSTILE) for one in assessment().attacks)
    return [
        replace(assessment(), model=HOSTILE, data=HOSTILE, attacks=attacks, protocol=HOSTILE),
        replace(diagnosis(), model=HOSTILE, data=HOSTILE, checks=(evidence,)),
        replace(certificate(), model=HOSTILE, data=HOSTILE, method=HOSTILE),
        replace(compare(other(), assessment()), first=VISIBLE, attacks_left_out=(HOSTILE,)),
    ]


def everything() -> list[tuple[Rendered, object]]:
    """Every kind of result beside what the command line would print of it."""
    found, smaller = assessment(), replace(assessment(), threat=Linf("4/255"))
    proved = [certificate(), replace(certificate(), threat=Linf("1/255"))]
    batches = [attacked(), attacked("4/255")]
    difference = compare(other(), assessment())
    return [
        (found, table(found)),
        (diagnosis(), verdict_table(diagnosis())),
        (proved[0], certificate_table(proved[:1])),
        (batches[0], attack_table(batches[0])),
        (difference, comparison_table(difference)),
        (Curve([found, smaller]), curve([found, smaller])),
        (Curve(proved), certificate_table(proved)),
        (Curve(batches), curve(batches)),
    ]


def name(value: object) -> str:
    return type(value).__name__


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


@pytest.mark.parametrize("found, expected", everything(), ids=name)
def test_printing_shows_what_the_command_line_shows(found: Rendered, expected: object) -> None:
    assert str(found) == f"{found}" == printed(expected) == printed(found)


def test_printed_tables_have_their_numbers() -> None:
    assert re.search(r"worst case +20\.0% +3\.6 to 62\.4", str(assessment()))
    assert "verdict: masked - attacks were misled" in str(diagnosis())


def test_an_attacked_batch_shows_its_numbers_in_the_columns_of_an_assessment() -> None:
    found = attacked()
    title, _, headings, _, clean, worst, *_ = str(found).splitlines()
    assert title == "4 images, linf 8/255, PGD-20"
    columns = str(assessment()).splitlines()[2]
    assert columns.startswith(headings.rstrip()), "and only the seconds are missing"
    assert clean.split() == ["clean", "75.0%", "30.1", "to", "95.4", "1.0", "0.0"]
    assert worst.split() == ["worst", "case", "25.0%", "4.6", "to", "69.9", "4.0", "3.0"]


def test_several_radii_are_one_table_in_the_same_columns() -> None:
    batches = Curve([attacked(), attacked("4/255")])
    title, _, headings, _, none, *rows = str(batches).splitlines()
    assert title == "Robust accuracy over the radius"
    assert headings == str(Curve([assessment()])).splitlines()[2]
    assert none.split() == ["none", "75.0%", "30.1", "to", "95.4", "1.0", "0.0"]
    assert [row.split()[:3] for row in rows] == [["linf", "4/255", "25.0%"], ["linf", "8/255", "25.0%"]]
    assert batches == tuple(batches) and batches[0].threat == Linf("8/255"), "a tuple in its own order"


def test_lists_of_threats_give_such_tables() -> None:
    data = torch.tensor([[[[0.9, 0.1]]], [[[0.45, 0.55]]]]), torch.tensor([0, 1])
    model, threats = nn.Flatten(), [Linf("0.1"), Linf("0.5")]
    found = soar.evaluate(model, data, threats, "fgsm", check=False)
    proved = soar.certify(model, data, threats, "ibp")
    batches = soar.attack(model, *data, threats)
    assert {type(one) for one in (found, proved, batches)} == {Curve}
    assert str(found).splitlines()[2].split()[:2] == ["threat", "accuracy"]
    assert str(proved).splitlines()[2].split()[:2] == ["threat", "certified"]


def test_a_comparison_shows_differences_and_what_was_left_out() -> None:
    lines = str(compare(other(), assessment())).splitlines()
    assert lines[0] == "other minus net on 5 images of things, linf 8/255"
    (row,) = (line for line in lines if line.startswith("  A "))
    assert row.split() == ["A", "80.0%", "40.0%", "+40.0", "-18.1", "to", "98.1"]
    assert "left out" not in str(compare(other(), assessment()))
    fewer = replace(other(), attacks=other().attacks[:1]).select(torch.arange(3))
    assert str(compare(fewer, assessment())).splitlines()[-1] == (
        "left out, because only one of them has it: 2 images, B"
    )


def test_a_representation_is_one_short_line() -> None:
    assert repr(assessment()) == (
        "<Assessment: net on 5 images of things, linf 8/255: 80.0% clean, 20.0% worst case>"
    )
    assert repr(diagnosis()) == "<Diagnosis: net on 5 images of things, linf 8/255: masked>"
    assert repr(compare(other(), assessment())) == (
        "<Comparison: other minus net on 5 images of things, linf 8/255: +20.0 worst case>"
    )
    both = Curve([attacked(), attacked("4/255")])
    assert repr(both) == "<Curve: AdversarialExamples at linf 8/255, linf 4/255>"
    empty: Curve[Assessment] = Curve()
    assert str(empty) == repr(empty) == "<Curve: no results at no radius>"


@pytest.mark.parametrize("found", hostile(), ids=name)
def test_names_cannot_steer_a_terminal(found: Rendered) -> None:
    assert repr(found).isprintable() and VISIBLE in repr(found)
    assert all(line.isprintable() for line in str(found).splitlines())
    assert VISIBLE in str(found).replace("\n", "")
    assert not any(line.startswith("clean 100") for line in str(found).splitlines())


@pytest.mark.parametrize("found", [*(one for one, _ in everything()), *hostile()], ids=name)
def test_a_notebook_gets_the_same_text_and_nothing_from_elsewhere(found: Rendered) -> None:
    html = found._repr_html_()
    read = Reader(html)
    assert read.tags <= {"pre", "span"} and read.attributes == {"style"}
    assert "url(" not in html and "http" not in html
    lines = [line.rstrip() for line in read.text.strip("\n").splitlines()]
    assert "\n".join(lines).strip("\n") == str(found)


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_colors_can_be_read_in_dark_and_in_light_notebooks() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    words = [f"[{style}]word[/]" for style in ("dim", *STYLES.values())]
    html = as_html("\n".join(words)) + "".join(one._repr_html_() for one, _ in everything())
    colors = set(re.findall(r"(?<![-\w])color: (#\w{6})", html))
    assert len(colors) >= 5 and "background" not in html, "text has the colors of the notebook otherwise"
    for color in colors:
        for notebook in ("#ffffff", "#111111", "#1e1e1e"):
            assert contrast(color, notebook) > 3.5, f"{color} on {notebook}"


def test_a_notebook_is_not_shown_the_table_a_second_time(capsys: pytest.CaptureFixture[str]) -> None:
    str(assessment())
    assessment()._repr_html_()
    assert capsys.readouterr().out == ""
