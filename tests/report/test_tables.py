"""Numbers as Markdown and LaTeX, ready to be pasted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from soar.report.tables import latex, markdown
from tests.report.made import HOSTILE, bare, certified, hostile, made_content


def markdown_rows(text: str) -> list[list[str]]:
    """Cut tables into cells as a Markdown reader does: at bars that are not escaped."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_markdown_holds_headline_and_attacks_with_intervals() -> None:
    rows = markdown_rows(markdown(made_content(1)))
    assert rows[0] == ["run", "clean", "worst case", "verdict"]
    assert rows[2] == ["pgd-10", "83.6% (81.2 to 85.8)", "66.1% (63.1 to 69.0)", "sound"]
    assert rows[3] == ["attack", "pgd-10"]
    assert [row[0] for row in rows[5:]] == [
        "clean", "PGD-20", "APGD-CE", "APGD-DLR", "Square-500", "worst case",
    ]  # fmt: skip
    assert rows[6] == ["PGD-20", "67.4% (64.4 to 70.2)"]


@pytest.mark.parametrize("write", [markdown, latex])
def test_the_caption_names_data_threat_examples_and_verdict(write: object) -> None:
    assert callable(write)
    text = write(made_content(2))
    for part in (
        "1000 images of fashion-mnist-sample (test), linf 0.1",
        "pgd-10: sound",
        "soar-zero-start: masked",
    ):
        assert part in text


def test_a_masked_number_never_stands_alone() -> None:
    text = markdown(made_content(2))
    rows = markdown_rows(text)
    (masked,) = (row for row in rows if row[0] == "soar-zero-start")
    assert masked[2].endswith("†") and masked[3] == "masked" and masked[4].endswith("†")
    for row in rows[rows.index(["attack", "pgd-10", "soar-zero-start †"]) + 3 :]:
        assert row[2].endswith("†") and not row[1].endswith("†")
    assert "† Not to be trusted" in text
    assert latex(made_content(2)).count("Not to be trusted") == 2  # in the caption of either table
    assert "†" not in markdown(made_content(1))


def test_the_best_is_marked_and_differences_have_intervals() -> None:
    rows = markdown_rows(markdown(made_content(3)))
    assert [row[0] for row in rows[2:5]] == [
        "pgd-10 (tied for best)",
        "soar-zero-start",
        "trades (tied for best)",
    ]
    assert rows[2][4] == "-" and rows[4][4].startswith("+1.1 (-")
    for write in (markdown, latex):
        assert "Tied: the 95" in write(made_content(3)) and "(best)" not in write(made_content(3))
        assert "pgd-10 (best)" in write(made_content(2)) and "Tied" not in write(made_content(2))


def test_an_attack_that_a_run_did_not_meet_is_said() -> None:
    one, _, other = made_content(3)
    fewer = replace(other, assessment=replace(other.assessment, attacks=other.assessment.attacks[:1]))
    rows = markdown_rows(markdown([one, fewer]))
    assert ["APGD-DLR", "66.1% (63.1 to 69.0)", "not run"] in rows
    assert "their difference leaves out APGD-CE, APGD-DLR, Square-500" in markdown([one, fewer])


def test_hostile_names_stay_text_in_markdown() -> None:
    runs = [hostile(run) for run in made_content(2)]
    text = markdown(runs)
    assert text.startswith("<!-- soar report ") and "<" not in text.split("-->", 1)[1]
    rows = markdown_rows(text)
    assert {len(row) for row in rows[:4]} == {5} and {len(row) for row in rows[4:]} == {3}


def test_a_bare_run_is_written_too() -> None:
    (run,) = made_content(1)
    assert "not diagnosed" in markdown([bare(run)]) and "not diagnosed" in latex([bare(run)])


def test_the_hostile_text_is_hostile() -> None:
    assert all(sign in HOSTILE for sign in "<>|_%#$\\{}~^&\"'")


def test_certified_accuracy_has_a_column_where_it_is_known() -> None:
    one, other = made_content(2)
    rows = markdown_rows(markdown([certified(one), other]))
    both = certified(one).bracket
    assert both is not None
    assert rows[0][:5] == ["run", "clean", "worst case", "certified", "verdict"]
    assert rows[2][3] == f"{both.certified:.1%} of 200" and rows[3][3] == "not run"
