"""Users read American English in the words of the field; `python -m tests.vocabulary` lists what is not."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.vocabulary import GENERATED, ROOT, SOURCE, Text, findings, markdown, notebook, package, python

FROM_SOURCE = (SOURCE, GENERATED, "CONTRIBUTING.md")


@pytest.fixture(scope="module")
def found() -> list[str]:
    return findings()


def test_pages_and_examples_use_the_words_of_the_field(found: list[str]) -> None:
    assert [line for line in found if not line.startswith(FROM_SOURCE)] == []


def test_docstrings_messages_and_help_use_the_words_of_the_field(found: list[str]) -> None:
    ours = [line for line in found if line.startswith(FROM_SOURCE)]
    assert ours == [], Counter(map(package, ours)).most_common()


@pytest.mark.parametrize(
    "words",
    [
        "The slope of the loss.",
        "the class that the model says",
        "images that stay right under attack",
        "an image that is wrong from the start",
        "one number an example",
        "140 an epoch",
        "26 s an epoch",
        "predictions\n    an image",
        "the examples of whom it tries",
        "which images, and who survives",
        "a folder of pictures",
        "a data set by name",
        "many trainings at once",
        "a training that collapses",
        "a 95 % interval",
        "70 per cent",
        "the colour of a neighbour",
        "normalisation, optimised and labelled",
        "the licence in the centre",
    ],
)
def test_a_word_that_the_field_does_not_use_is_found(words: str) -> None:
    assert len(list(Text("a.md", 1, words).findings())) >= 1


@pytest.mark.parametrize(
    "words",
    [
        "The gradient of the loss, one value per example.",
        "A run that was killed right after a checkpoint, on the right side.",
        "An adversary who may change every pixel of an image.",
        "Passing an image takes one training step; a training step is a pass.",
        "The precise size of an exercise; otherwise, promise no hypothesis or analyses.",
        "`found.said` and [a link](docs/pictures/said.md)",
        "Return 1.\n\n    >>> said = slope\n    1",
        "95% of 100 images a second",
        "It prints what is wrong.",
    ],
)
def test_other_words_are_left_alone(words: str) -> None:
    assert list(Text("a.md", 1, words).findings()) == []


def test_a_docstring_begins_with_what_the_function_does() -> None:
    source = 'def f(): "Give the loss."\ndef g(): "Return the loss."\nTITLE = "Give me a name"\n'
    (only,) = [line for text in python("a.py", source) for line in text.findings()]
    assert only == "a.py:1: 'Give', instead: Return, Compute, Check"


def test_what_follows_a_doctest_is_read() -> None:
    assert len(list(Text("a.py", 1, "Return.\n\n>>> 1\n1\n\nThe slope.", True).findings())) == 1


def test_texts_with_values_in_them_are_read_as_one() -> None:
    source = 'x = f"{n} %"\ny = (\n    "a "\n    f"{n} an epoch"\n)\n'
    lines = [line for text in python("a.py", source) for line in text.findings()]
    assert [line.split(",")[0] for line in lines] == ["a.py:1: '1 %'", "a.py:3: '1 an epoch'"]


def test_a_notebook_is_read_like_a_page() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "a slope"]},
        {"cell_type": "code", "source": ["slope = 1  # a picture"]},
    ]
    lines = [line for text in notebook("a.ipynb", json.dumps({"cells": cells})) for line in text.findings()]
    assert [line.split(",")[0] for line in lines] == ["a.ipynb:2: 'slope'", "a.ipynb:2: 'picture'"]


def test_of_code_on_a_page_comments_and_docstrings_are_read() -> None:
    page = 'A\n```python\nslope = 1  # the slope\n"""A picture."""\n```\n```text\nslope\n```\nslope\n'
    lines = [line for text in markdown("a.md", page) for line in text.findings()]
    assert {line.split(",")[0] for line in lines} == {
        "a.md:3: 'slope'",
        "a.md:4: 'picture'",
        "a.md:9: 'slope'",
    }


def test_a_finding_belongs_to_its_package() -> None:
    assert package("src/soar/losses.py:1: 'slope'") == "src/soar/losses.py"
    assert package("src/soar/cli (soar train --help):3: 'slope'") == "src/soar/cli"
    assert package("docs/guides/scale.md:1: 'slope'") == "docs"


def test_words_are_spelled_as_in_a_dictionary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codespell = pytest.importorskip("codespell_lib", reason="pip install codespell")
    monkeypatch.chdir(ROOT)
    folders = [
        name for name in ("src", "docs", "tests", "examples", "tools", "benchmarks") if Path(name).exists()
    ]
    assert codespell.main(*folders, *map(str, Path().glob("*.md"))) == 0, capsys.readouterr().out
