from __future__ import annotations

import pytest

from soar.attacks import PGD, Outcomes, Progress, run
from soar.attacks.forecast import Forecast
from soar.attacks.queue import Job, Queue
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said


def test_shares_follow_from_what_has_happened() -> None:
    queue, now = Queue([0, 1, 2, 3], entries=3), iter(range(99))
    forecast = Forecast(queue, 10, 3, clock=lambda: next(now))
    assert forecast.share() == 0
    queue.take(2)
    forecast.asked(8)
    # Two entries under way, two more for each, and nothing known of the two examples to come.
    assert forecast.share() == pytest.approx(8 / (8 + 2 * 5 + 4 * 10 + 2 * 30))
    queue.finish(Job(0, 0), fooled=True)
    forecast.ended_first(4, fooled=True)
    queue.finish(Job(1, 0), fooled=False)
    forecast.ended_first(10, fooled=False)
    forecast.asked(6)
    # Half of the first entries were survived, after 7 predictions in the mean.
    assert forecast.share() == pytest.approx(14 / (14 + 2 * 10 + 2 * (7 + 0.5 * 2 * 10)))


def test_guesses_are_made_once_a_second() -> None:
    queue, times = Queue([0], entries=1), iter([0.0, 0.5, 1.5])
    forecast = Forecast(queue, 10, 1, clock=lambda: next(times))
    forecast.asked(10)
    first = forecast.share()
    forecast.asked(10)
    assert forecast.share() == first < forecast.share()


def test_the_engine_tells_a_share_that_ends_near_one() -> None:
    model, x = TinyNet(), images(20)
    shares: list[float] = []

    def listen(progress: Progress, _: Outcomes) -> None:
        shares.append(progress.share)

    run(model, PGD(steps=4, restarts=2), Linf("0.01"), x, said(model, x), batch_size=8, progress=listen)
    assert 0 < shares[0] <= 1
