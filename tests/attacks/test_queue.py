from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soar.attacks import PGD, AttackProgress, Outcomes, run
from soar.attacks.queue import Queue, QueueEntry
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images, said


def test_the_first_entry_of_every_example_comes_before_the_second_of_any() -> None:
    queue = Queue([0, 1, 2], entries=2)
    assert queue.take(2) == [QueueEntry(0, 0), QueueEntry(1, 0)]
    assert not queue.finish(QueueEntry(0, 0), fooled=False)
    assert queue.take(2) == [QueueEntry(2, 0), QueueEntry(0, 1)]


def test_success_cancels_later_entries_but_not_earlier_ones() -> None:
    queue = Queue([0], entries=5)
    queue.take(1)
    assert queue.take_ahead(2) == [], "no example has survived anything yet"
    queue.finish(QueueEntry(0, 0), fooled=False)
    assert queue.take(5) == [QueueEntry(0, 1)]
    assert queue.take_ahead(2) == [QueueEntry(0, 2), QueueEntry(0, 3)]
    assert not queue.finish(QueueEntry(0, 2), fooled=True)
    assert queue.is_canceled(QueueEntry(0, 3)) and not queue.is_canceled(QueueEntry(0, 1))
    assert queue.has_canceled() and not queue.has_canceled()
    assert queue.take_ahead(5) == []
    assert queue.finish(QueueEntry(0, 1), fooled=False)


@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_any_order_of_finishing_settles_all_with_the_lowest_success(
    fooling: list[list[bool]], places: int, random: object
) -> None:
    queue = Queue(list(range(len(fooling))), entries=3)
    live: list[QueueEntry] = []
    settled: list[int] = []
    ran: list[QueueEntry] = []
    while True:
        live += queue.take(places - len(live))
        live += queue.take_ahead(places - len(live))
        if not live:
            break
        job = live.pop(random.randrange(len(live)))  # type: ignore[attr-defined]
        ran.append(job)
        if queue.finish(job, fooled=fooling[job.row][job.entry]):
            settled.append(job.row)
        live = [other for other in live if not queue.is_canceled(other)]
    assert sorted(settled) == list(range(len(fooling)))
    assert len(set(ran)) == len(ran)
    for row, outcomes in enumerate(fooling):
        lowest = outcomes.index(True) if any(outcomes) else 2
        assert all(QueueEntry(row, entry) in ran for entry in range(lowest + 1))


def test_shares_follow_from_what_has_happened() -> None:
    now = iter(range(99))
    queue = Queue([0, 1, 2, 3], entries=3, budget=10, clock=lambda: next(now))
    assert queue.share(0) == 0
    queue.take(2)
    # Two entries under way, two more for each, and nothing known of the two examples to come.
    assert queue.share(8) == pytest.approx(8 / (8 + 2 * 5 + 4 * 10 + 2 * 30))
    queue.finish(QueueEntry(0, 0), fooled=True, asked=4)
    queue.finish(QueueEntry(1, 0), fooled=False, asked=10)
    # Half of the first entries were survived, after 7 predictions in the mean.
    assert queue.share(14) == pytest.approx(14 / (14 + 2 * 10 + 2 * (7 + 0.5 * 2 * 10)))


def test_shares_are_estimated_once_a_second() -> None:
    times = iter([0.0, 0.5, 1.5])
    queue = Queue([0], entries=1, budget=10, clock=lambda: next(times))
    first = queue.share(10)
    assert queue.share(20) == first < queue.share(20)


def test_the_engine_reports_a_share() -> None:
    model, x = TinyNet(), images(20)
    shares: list[float] = []

    def listen(progress: AttackProgress, _: Outcomes) -> None:
        shares.append(progress.share)

    run(model, PGD(steps=4, restarts=2), Linf("0.01"), x, said(model, x), batch_size=8, progress=listen)
    assert 0 < shares[0] <= 1
