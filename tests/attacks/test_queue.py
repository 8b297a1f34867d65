from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from soar.attacks.queue import Job, Queue


def test_everybodys_first_entry_comes_before_anybodys_second() -> None:
    queue = Queue([0, 1, 2], entries=2)
    assert queue.take(2) == [Job(0, 0), Job(1, 0)]
    assert not queue.finish(Job(0, 0), fooled=False)
    assert queue.take(2) == [Job(2, 0), Job(0, 1)]


def test_success_cancels_later_entries_but_not_earlier_ones() -> None:
    queue = Queue([0], entries=5)
    queue.take(1)
    assert queue.take_ahead(2) == [], "nobody has survived anything yet"
    queue.finish(Job(0, 0), fooled=False)
    assert queue.take(5) == [Job(0, 1)]
    assert queue.take_ahead(2) == [Job(0, 2), Job(0, 3)]
    assert not queue.finish(Job(0, 2), fooled=True)
    assert queue.is_cancelled(Job(0, 3)) and not queue.is_cancelled(Job(0, 1))
    assert queue.has_cancelled() and not queue.has_cancelled()
    assert queue.take_ahead(5) == []
    assert queue.finish(Job(0, 1), fooled=False)


@given(
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_any_order_of_finishing_settles_everyone_with_the_lowest_success(
    fooling: list[list[bool]], places: int, random: object
) -> None:
    queue = Queue(list(range(len(fooling))), entries=3)
    live: list[Job] = []
    settled: list[int] = []
    ran: list[Job] = []
    while True:
        live += queue.take(places - len(live))
        live += queue.take_ahead(places - len(live))
        if not live:
            break
        job = live.pop(random.randrange(len(live)))  # type: ignore[attr-defined]
        ran.append(job)
        if queue.finish(job, fooled=fooling[job.row][job.entry]):
            settled.append(job.row)
        live = [other for other in live if not queue.is_cancelled(other)]
    assert sorted(settled) == list(range(len(fooling)))
    assert len(set(ran)) == len(ran)
    for row, outcomes in enumerate(fooling):
        lowest = outcomes.index(True) if any(outcomes) else 2
        assert all(Job(row, entry) in ran for entry in range(lowest + 1))
