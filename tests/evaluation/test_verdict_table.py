from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from soar.evaluation.diagnosis import Diagnosis
from soar.evaluation.evidence.judgement import not_made
from soar.evaluation.verdict_table import MEANING, verdict_table
from tests.evaluation.test_diagnosis import diagnosis, item


def shown(found: Diagnosis) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(verdict_table(found))
    return console.export_text()


def test_the_gravest_comes_first_with_its_rule_and_the_verdict_last() -> None:
    grave = replace(item("masked", 3.0, "soar evaluate [RUN]"), title="Grave", rule="from 5 points on")
    text = shown(diagnosis(replace(item("sound"), title="Harmless", rule="unseen"), grave))
    assert text.index("Grave") < text.index("from 5 points on") < text.index("Harmless")
    assert "unseen" not in text
    assert f"verdict: masked - {MEANING['masked']}" in text
    assert text.rstrip().endswith("next: soar evaluate [RUN]"), "brackets are no markup"


def test_what_to_run_next_names_the_run() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    advice = "soar diagnose RUN --source OTHER_RUN"
    console.print(verdict_table(diagnosis(item("suspicious", 1.0, advice)), "runs/mine"))
    assert "next: soar diagnose runs/mine --source OTHER_RUN" in console.export_text()


def test_checks_that_could_not_be_made_are_shown_with_their_reason() -> None:
    unmade = not_made("losses", "Losses", "from 5 points on", "no image is right")
    text = shown(diagnosis(item("sound"), unmade))
    assert "inconclusive Losses" in text and "Could not be checked: no image is right." in text
    assert f"verdict: inconclusive - {MEANING['inconclusive']}" in text
    assert "from 5 points on" not in text, "a rule that was not applied"


def test_a_first_look_says_so() -> None:
    assert "first look" in shown(replace(diagnosis(), is_whole=False))
    assert "first look" not in shown(diagnosis())
