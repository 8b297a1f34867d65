from __future__ import annotations

import io

import pytest
from rich.console import Console

from soar.experiments.jobs import Ending, Event
from soar.experiments.plan import Plan
from soar.experiments.show.watch import Watch
from tests.experiments.made import measuring, training

FIRST, SECOND = training("a", seconds=60), measuring("b", "a", seconds=20)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watching(clock: Clock, mode: str, stream: io.StringIO) -> Watch:
    return Watch(Plan((FIRST, SECOND)), 1, mode, stream=stream, clock=clock)  # type: ignore[arg-type]


def test_plain_lines_tell_what_begins_goes_on_and_ends(clock: Clock) -> None:
    stream = io.StringIO()
    with watching(clock, "auto", stream) as watch:
        watch(Event(FIRST, "started"))
        clock.now = 30
        watch(Event(FIRST, "progress", text="too early to be told"))
        clock.now = 65
        watch(Event(FIRST, "progress", text="epoch 3"))
        clock.now = 120
        watch(Event(FIRST, "ended", ending=Ending("done", seconds=120)))
        watch(Event(SECOND, "started"))
        watch(Event(SECOND, "ended", ending=Ending("failed", "no room left", 1)))
    assert stream.getvalue().splitlines() == [
        "[0/2] train a: begun",
        "[0/2] train a: epoch 3",
        "[1/2] train a: done in 2:00 min, 40 s left",
        "[1/2] measure b: begun",
        "[2/2] measure b: failed: no room left",
    ]


def test_quiet_says_nothing_and_a_skipped_job_was_never_begun(clock: Clock) -> None:
    stream = io.StringIO()
    with watching(clock, "quiet", stream) as watch:
        watch(Event(FIRST, "started"))
        watch(Event(FIRST, "ended", ending=Ending("failed", "x")))
        watch(Event(SECOND, "ended", ending=Ending("skipped", "it needs train a")))
    assert stream.getvalue() == ""


def test_time_left_follows_how_estimates_turned_out(clock: Clock) -> None:
    with watching(clock, "quiet", io.StringIO()) as watch:
        assert watch.seconds_left() is None
        clock.now = 120
        watch(Event(FIRST, "ended", ending=Ending("done", seconds=120)))
        assert watch.seconds_left() == pytest.approx(40), (
            "60 s were estimated and 120 s taken, so 20 s are 40"
        )
        watch(Event(SECOND, "started"))
        clock.now = 130
        assert watch.seconds_left() == pytest.approx(130 / 7)
        clock.now = 1000
        assert watch.seconds_left() == 0


def test_the_live_picture_has_a_line_for_each_running_job_and_a_bar(clock: Clock) -> None:
    watch = watching(clock, "live", io.StringIO())
    watch._started = 0.0
    watch(Event(FIRST, "started"))
    watch(Event(FIRST, "progress", text="[step] 12 " + "long " * 50))
    clock.now = 65
    for width in (80, 140):
        console = Console(width=width, file=io.StringIO(), record=True)
        console.print(watch._picture())
        shown = console.export_text().splitlines()
        assert len(shown) == 2 and all(len(line) <= width for line in shown)
        assert shown[0].startswith("train a") and "0:01:05  [step] 12" in shown[0]
        assert "0 of 2 jobs, about" in shown[1]


def test_live_events_stay_on_the_screen_above_the_picture(clock: Clock) -> None:
    stream = io.StringIO()
    with watching(clock, "live", stream) as watch:
        watch(Event(FIRST, "started"))
        watch(Event(FIRST, "ended", ending=Ending("done", seconds=2)))
    assert "[1/2] train a: done in 2.0 s" in stream.getvalue()
