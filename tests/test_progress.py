from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from soar.progress import Mode, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def clock(*seconds: float) -> Callable[[], float]:
    times = iter(seconds)
    return lambda: next(times)


def test_plain_lines_are_throttled_and_the_last_state_is_always_written() -> None:
    stream = io.StringIO()
    ticks = clock(0, 1, 5, 10.9, 11, 12, 13)
    with Progress(500, "training", "plain", stream=stream, interval=10, clock=ticks) as bar:
        for loss in (5.0, 4.0, 3.0, 2.0, 1.0):
            bar.advance(100, loss=loss)
    assert stream.getvalue().splitlines() == [
        "training  100/500 images  20%  0:00:04 left  loss 5  100 images/s",
        "training  400/500 images  80%  0:00:03 left  loss 2  36 images/s",
        "training  500/500 images  100%  0:00:13 taken  loss 1  38 images/s",
    ]


def test_units_done_before_a_resume_do_not_count_for_the_speed() -> None:
    stream = io.StringIO()
    bar = Progress(100, "attack", "plain", done=80, stream=stream, clock=clock(0, 2, 2))
    with bar:
        bar.advance(10)
    first = stream.getvalue().splitlines()[0]
    assert first == "attack  90/100 images  90%  0:00:02 left  5 images/s"


def test_fields_stay_until_replaced_and_underscores_become_spaces() -> None:
    stream = io.StringIO()
    with Progress(2, "attack", "plain", stream=stream, interval=0) as bar:
        bar.advance(1, robust_accuracy=0.51234)
        bar.advance(1, clean="81.0%", found="7/9")
        bar.advance(0, found=None, never=None)
    assert stream.getvalue().splitlines()[-1].count("robust accuracy 0.5123  clean 81.0%") == 1


def test_quiet_writes_nothing() -> None:
    stream = Terminal()
    with Progress(1, "training", "quiet", stream=stream) as bar:
        bar.advance(1, loss=1.0)
        bar.note("anything")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("mode", ["auto", "live"])
def test_a_terminal_gets_a_live_bar_with_the_newest_figures(mode: Mode) -> None:
    stream = Terminal()
    with Progress(10, "training", mode, stream=stream) as bar:
        bar.advance(10, loss=0.25)
        bar.note("epoch 1: clean 80% [robust 40%]")
    text = stream.getvalue()
    assert "\x1b[" in text
    assert "100%" in text
    assert "loss 0.25" in text
    assert "epoch 1: clean 80% [robust 40%]" in text


def test_auto_is_plain_without_a_terminal() -> None:
    stream = io.StringIO()
    with Progress(1, "training", stream=stream) as bar:
        bar.advance(1)
        bar.note("saved")
    assert "\x1b" not in stream.getvalue()
    assert "saved" in stream.getvalue().splitlines()


def test_nothing_to_do_is_complete() -> None:
    stream = io.StringIO()
    with Progress(0, "attack", "plain", stream=stream):
        pass
    assert stream.getvalue().startswith("attack  0/0 images  100%")


def test_an_exception_inside_still_closes_the_bar() -> None:
    stream = Terminal()

    def fail() -> None:
        with Progress(2, "training", "live", stream=stream):
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    hidden, shown = stream.getvalue().rfind("\x1b[?25l"), stream.getvalue().rfind("\x1b[?25h")
    assert shown > hidden, "the cursor is visible again"


def test_rich_is_imported_only_for_a_live_bar() -> None:
    code = (
        "import sys; from soar.progress import Progress\n"
        "with Progress(1, 'x', 'plain') as bar: bar.advance(1)\n"
        "assert 'rich' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_narrow_terminal_shows_the_figures_and_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with Progress(10, "training", "live", stream=stream) as bar:
        bar.advance(10, loss=2.314, accuracy="9.4%", clean="12.5%", robust="2.5%")
    assert "loss 2.314  accuracy 9.4%  clean 12.5%  robust 2.5%" in stream.getvalue()
    assert "━" not in stream.getvalue()
    monkeypatch.setenv("COLUMNS", "140")
    wide = Terminal()
    with Progress(10, "training", "live", stream=wide) as bar:
        bar.advance(10)
    assert "━" in wide.getvalue()


def test_an_expected_share_decides_about_the_time_that_is_left() -> None:
    stream = io.StringIO()
    with Progress(100, "attack", "plain", stream=stream, clock=clock(0, 10, 20)) as bar:
        bar.expect(0.25)
        bar.advance(50)
    assert stream.getvalue().splitlines()[0] == "attack  50/100 images  50%  0:00:30 left  5 images/s"


@pytest.mark.parametrize("mode", ["plain", "live"])
def test_text_from_files_moves_no_cursor_and_is_no_markup(mode: Mode) -> None:
    stream = Terminal() if mode == "live" else io.StringIO()
    with Progress(2, "a\x07[/]\nb", mode, stream=stream) as bar:
        bar.advance(1, name="x\x07y")
        bar.note("c\x07d")
    shown = stream.getvalue()
    assert "\x07" not in shown and "a\\x07[/] b" in shown and "c\\x07d" in shown


@pytest.mark.parametrize("mode", ["plain", "live"])
@pytest.mark.parametrize("width", ["80", "140"])
def test_no_time_is_left_at_100_percent_and_99_6_percent_is_not_100(
    mode: Mode, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    stream = Terminal() if mode == "live" else io.StringIO()
    with Progress(1000, "training", mode, stream=stream, interval=0, clock=clock(0, 10, 11, 12, 13)) as bar:
        bar.expect(0.5)  # an estimate that turns out wrong
        bar.advance(996)
        if bar._live is not None:
            bar._live.refresh()
        bar.advance(4)
        bar.advance(0, validated="3/300")
    lines = re.split(r"[\r\n]", stream.getvalue())
    assert any("99%" in line and "0:00:10 left" in line for line in lines)
    complete = [line for line in lines if "100%" in line]
    assert "0:00:13 taken" in complete[-1] and not any("left" in line for line in complete)


@pytest.mark.parametrize("mode", ["plain", "live"])
def test_an_early_end_shows_the_share_that_was_reached_and_the_time_taken(mode: Mode) -> None:
    stream = Terminal() if mode == "live" else io.StringIO()
    with Progress(200, "training", mode, stream=stream, clock=clock(0, 4, 5)) as bar:
        bar.advance(50)
    last = re.split(r"[\r\n]", stream.getvalue().replace("\x1b[?25h", "").strip())[-1]
    assert "25%" in last and "0:00:05 taken" in last


def test_more_than_expected_is_100_percent() -> None:
    stream = io.StringIO()
    with Progress(2, "attack", "plain", stream=stream, clock=clock(0, 4, 8)) as bar:
        bar.advance(3)
    assert stream.getvalue().splitlines()[-1] == "attack  3/2 images  100%  0:00:08 taken  0.38 images/s"


@pytest.mark.parametrize("mode", ["plain", "live"])
def test_an_unknown_total_has_neither_a_share_nor_time_left(mode: Mode) -> None:
    stream = Terminal() if mode == "live" else io.StringIO()
    with Progress(None, "file", mode, unit="MiB", stream=stream, clock=clock(0, 1, 2)) as bar:
        bar.advance(3)
    shown = stream.getvalue()
    assert "%" not in shown and "left" not in shown and "0:00:02 taken" in shown
    if mode == "plain":
        assert shown.splitlines() == ["file  3 MiB  3 MiB/s", "file  3 MiB  0:00:02 taken  1.5 MiB/s"]


def test_bars_inside_each_other_each_end_with_the_time_taken() -> None:
    stream = Terminal()
    with Progress(1, "outer", "live", stream=stream) as outer:
        with Progress(1, "inner", "live", stream=stream) as inner:
            inner.advance(1)
        outer.advance(1)
    for label in ("outer", "inner"):
        assert re.findall(rf"{label} +(\S+) +\S+ (\w+)", stream.getvalue())[-1] == ("100%", "taken")
