from __future__ import annotations

import io

import pytest

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
    return Watch(Plan((FIRST, SECOND)), mode, stream=stream, clock=clock)  # type: ignore[arg-type]


def test_plain_lines_tell_what_begins_goes_on_and_ends(clock: Clock) -> None:
    stream = io.StringIO()
    with watching(clock, "auto", stream) as watch:
        watch(Event(FIRST, "started"))
        clock.now = 30
        watch(Event(FIRST, "progress", text="epoch 2"))
        clock.now = 60
        watch(Event(FIRST, "progress", text="too early to be told"))
        clock.now = 120
        watch(Event(FIRST, "ended", ending=Ending("done", seconds=120)))
        watch(Event(SECOND, "started"))
        watch(Event(SECOND, "ended", ending=Ending("failed", "no room left", 1)))
    assert stream.getvalue().splitlines() == [
        "train a: begun",
        "all jobs  0/2 jobs  0%  train a epoch 2",
        "train a: done in 2:00 min",
        # 60 s were estimated and 120 s taken, so the 20 s of the other will be 40.
        "all jobs  1/2 jobs  50%  0:00:40 left  0.0083 jobs/s",
        "measure b: begun",
        "measure b: failed: no room left",
        "all jobs  2/2 jobs  100%  0:02:00 taken  0.017 jobs/s",
    ]


def test_quiet_says_nothing_and_a_skipped_job_was_never_begun(clock: Clock) -> None:
    stream = io.StringIO()
    with watching(clock, "quiet", stream) as watch:
        watch(Event(FIRST, "started"))
        watch(Event(FIRST, "ended", ending=Ending("failed", "x")))
        watch(Event(SECOND, "ended", ending=Ending("skipped", "it needs train a")))
    assert stream.getvalue() == ""


def test_nothing_to_do_shows_nothing(clock: Clock) -> None:
    stream = io.StringIO()
    with Watch(Plan(()), "plain", stream=stream, clock=clock):
        pass
    assert stream.getvalue() == ""


def test_live_events_stay_on_the_screen_above_the_bar(clock: Clock) -> None:
    stream = io.StringIO()
    with watching(clock, "live", stream) as watch:
        watch(Event(FIRST, "started"))
        watch(Event(FIRST, "progress", text="[step] 12"))
        watch(Event(FIRST, "ended", ending=Ending("done", seconds=2)))
    assert "train a: done in 2.0 s" in stream.getvalue()
