from __future__ import annotations

import io
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct
from rich.console import Console

from soar.experiments.claims import Claim, Judged
from soar.experiments.plan import Plan
from soar.experiments.show import terminal
from tests.experiments.made import measuring, result, training


@pytest.fixture(params=[80, 140])
def console(request: pytest.FixtureRequest) -> Console:
    return Console(width=request.param, file=io.StringIO(), record=True)


def test_a_plan_says_what_is_done_what_is_there_and_how_long_it_takes(console: Console) -> None:
    planned = Plan(
        (training("a", seconds=3600), measuring("m", "a", seconds=60)), (training("b"), measuring("n"))
    )
    terminal.plan(console, planned, room=2, begun={"a"}, obstacles=["adv_linf: all rows (no cifar10 data)"])
    assert terminal.text_of(console).splitlines() == [
        "to train       1 network, about 1:00 h on one core",
        "               train a (1:00 h, resumed)",
        "to measure     1 number, about 1:00 min on one core",
        "already there  1 network and 1 number",
        "not possible   adv_linf: all rows (no cifar10 data)",
        "together       about 1:01 h, 2 jobs at once",
    ]


def test_a_plan_says_what_its_times_are_based_on(console: Console) -> None:
    terminal.plan(console, Plan((training("a", seconds=90),), (training("b"),), timed_by=1), room=1)
    last = terminal.text_of(console).splitlines()[-1]
    assert last == "together       about 1:30 min, one job at a time; timed by 1 job done before"


def test_a_long_plan_names_the_first_trainings_unless_all_are_asked_for(console: Console) -> None:
    planned = Plan(tuple(training(f"job{k}") for k in range(15)))
    terminal.plan(console, planned, room=1)
    shown = terminal.text_of(console)
    assert "job9" in shown and "job10" not in shown and "and 5 more, named by --plan" in shown
    assert "to measure" not in shown
    terminal.plan(console, planned, room=1, whole=True)
    assert "job14" in terminal.text_of(console)


def test_a_plan_tells_what_a_training_is_about(console: Console) -> None:
    terminal.plan(console, Plan((replace(training("a", seconds=60), about="no defense"),)), room=1)
    assert "train a (1:00 min): no defense" in terminal.text_of(console)


def test_nothing_to_do_is_said_without_a_time(console: Console) -> None:
    terminal.plan(console, Plan((), (training("a"),)), room=2)
    assert terminal.text_of(console).splitlines() == [
        "to train       no networks",
        "already there  1 network and no numbers",
    ]


def test_a_table_always_shows_its_caution_and_what_is_missing(console: Console) -> None:
    terminal.table(console, result())
    shown = terminal.text_of(console)
    assert "caution: Smaller than the paper's." in shown
    assert "80.64±0.40 61.00±1.41 -19.64" in shown
    assert "missing: WideResNet / ADV: not trained here\n  soar reproduce made" in shown
    text = " ".join(shown.split())
    assert "ours on 500 test images; mean ± standard deviation of 2 training runs" in text
    assert "95% interval of each at most ±5.00" in text
    assert all(len(line) <= console.width for line in shown.splitlines())


def test_a_sweep_tells_what_validation_selects(console: Console) -> None:
    ranked = {"7": 31.5, "9": 31.25}
    terminal.table(console, result(validation=ranked, row_key="beta"))
    text = " ".join(terminal.text_of(console).split())
    assert "selected on validation: beta 7, robust accuracy 31.5%; then 9 (31.2)" in text
    assert terminal.selection(result()).endswith("no network is trained")


def test_rows_that_are_tied_are_named(console: Console) -> None:
    terminal.table(console, result(), marked=["ResNet / ADV"])
    assert "tied" not in terminal.text_of(console)
    terminal.table(console, result(), marked=["ResNet / ADV", "WideResNet / ADV"])
    text = " ".join(terminal.text_of(console).split())
    assert "tied for the best: ResNet / ADV, WideResNet / ADV (95% intervals of" in text


def test_claims_are_told_with_their_verdict_and_why(console: Console) -> None:
    claims = [
        Claim(text="SOAR beats ADV.", source="section 5", checks=()),
        Claim(text="One z is enough.", checks=()),
    ]
    judged = [
        Judged(claims[0], "not held", "41.0 [38, 44] against 47.0"),
        Judged(claims[1], "held", "within 0.01"),
    ]
    terminal.claims(console, judged)
    assert terminal.text_of(console).splitlines() == [
        "claims of the paper on our numbers: 1 held, 1 not held, 0 undecided",
        "not held  SOAR beats ADV. (section 5)",
        "          41.0 [38, 44] against 47.0",
        "held      One z is enough.",
        "          within 0.01",
    ]
    terminal.claims(console, [])
    assert console.export_text() == ""


def test_the_legend_says_which_images_and_how_many_training_runs() -> None:
    one = replace_struct(result(), seeds=1, split="validation")
    assert "500 validation images; one training; with ±, mean and standard deviation of 2" in terminal.legend(
        one
    )
