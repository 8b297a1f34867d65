from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from soar.evaluation.diagnosis import Check, Diagnosis
from soar.evaluation.table import MEANING, table, verdict_table
from tests.evaluation.test_assessment import assessment
from tests.evaluation.test_diagnosis import diagnosis, item


def text(renderable: object) -> list[str]:
    written = io.StringIO()
    Console(width=120, file=written).print(renderable)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def test_a_table_has_a_row_for_clean_each_attack_and_the_worst_case() -> None:
    lines = text(table(assessment()))
    assert lines[0] == "net on 5 images of things, linf 8/255"
    rows = [line.split() for line in lines if " to " in line]
    assert [row[0] for row in rows] == ["clean", "A", "B", "worst"]
    assert rows[1][1:] == ["40.0%", "11.8", "to", "76.9", "4.0", "3.0", "1.5"]
    assert rows[3][2:] == ["20.0%", "3.6", "to", "62.4", "9.0", "6.0", "3.0"]


def test_names_with_brackets_are_shown_as_they_are() -> None:
    found = replace(assessment(), model="runs/[red]a", data="[/b]")
    assert text(table(found))[0] == "runs/[red]a on 5 images of [/b], linf 8/255"


def shown(found: Diagnosis) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(verdict_table(found))
    return console.export_text()


def test_the_gravest_comes_first_with_its_rule_and_the_verdict_last() -> None:
    grave = replace(item("masked", 3.0, ("autoattack",)), title="Grave", rule="from 5 points on")
    text = shown(diagnosis(replace(item("sound"), title="Harmless", rule="unseen"), grave))
    assert text.index("Grave") < text.index("from 5 points on") < text.index("Harmless")
    assert "unseen" not in text
    assert f"verdict: masked - {MEANING['masked']}" in text
    assert text.rstrip().endswith(
        "next: run all of AutoAttack: soar.evaluate(model, data, threat, 'standard')"
    )


def test_what_to_run_next_names_the_run() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    found = diagnosis(item("suspicious", 1.0, ("transfer",)))
    console.print(verdict_table(found, "'[my runs]/a'", ["runs/other"]))
    assert "soar diagnose '[my runs]/a' --source runs/other" in console.export_text(), "no markup"


def test_a_verdict_at_the_threshold_says_so() -> None:
    close = replace(item("suspicious", 1.0), alternatives=("sound",))
    assert "at the threshold: more images would decide" in shown(diagnosis(close))
    assert "at the threshold" not in shown(diagnosis(item("suspicious", 1.0)))


def test_a_first_look_says_so() -> None:
    assert "first look" in shown(replace(diagnosis(), is_complete=False))
    assert "first look" not in shown(diagnosis())


def test_checks_that_could_not_be_made_are_shown_with_their_reason() -> None:
    unmade = Check("losses", "Losses", "from 5 points on").skipped("no image is right")
    text = shown(diagnosis(item("sound"), unmade))
    assert "inconclusive Losses" in text and "Could not be checked: no image is right." in text
    assert f"verdict: inconclusive - {MEANING['inconclusive']}" in text
    assert "from 5 points on" not in text, "a rule that was not applied"
