from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable

import pytest

from soar.recipes.settings import GuardSettings
from soar.training.guards import Guards, StopRequest


def test_the_running_mean() -> None:
    guards = Guards(GuardSettings())
    for loss in (2.0, 4.0, 3.0):
        assert guards.before_update(loss, 1.0) is None
    assert guards.mean_loss == pytest.approx(0.95 * (0.95 * 2 + 0.05 * 4) + 0.05 * 3)


@pytest.mark.parametrize(
    ("loss", "norm", "verdict"),
    [
        (math.nan, 1.0, "the loss is nan"),
        (math.inf, 1.0, "the loss is inf"),
        (1.0, math.nan, "the gradient norm is nan (loss 1)"),
        (1.0, math.inf, "the gradient norm is inf (loss 1)"),
        (20.1, 1.0, "the loss 20.1 is above 20, 10 times its running mean (guards.explosion)"),
        (19.9, 1e9, None),
    ],
)
def test_verdicts_before_an_update(loss: float, norm: float, verdict: str | None) -> None:
    guards = Guards(GuardSettings(explosion=10), mean_loss=2.0)
    assert guards.before_update(loss, norm) == verdict
    if verdict:
        assert guards.mean_loss == 2.0, "a bad loss does not enter the mean"


def test_an_odd_batch_of_a_fitted_training_set_is_no_explosion() -> None:
    guards = Guards(GuardSettings(explosion=10), mean_loss=0.001)
    assert guards.before_update(0.5, 1.0) is None


@pytest.mark.parametrize(("last", "is_overfitting"), [(0.31, False), (0.29, True), (0.0, True)])
def test_a_fall_by_more_than_the_limit_is_overfitting(last: float, is_overfitting: bool) -> None:
    guards = Guards(GuardSettings(overfitting_drop=0.2))
    assert (guards.overfitting(0.5, last) is not None) == is_overfitting


def test_overfitting_names_the_figures_and_the_setting() -> None:
    assert Guards(GuardSettings()).overfitting(0.512, 0.02) == (
        "catastrophic overfitting: robust validation accuracy fell from 51.2% to 2.0%, "
        "more than 20% (guards.overfitting_drop)"
    )
    assert Guards(GuardSettings(overfitting="off")).overfitting(0.5, 0.0) is None


def test_a_fall_of_the_alignment_is_overfitting_and_told_once() -> None:
    guards = Guards(GuardSettings(alignment_drop=0.5))
    told = [guards.alignment(value) for value in [0.1] + [0.9] * 60 + [math.nan] + [0.1] * 60]
    (message,) = filter(None, told)
    mean = 0.1 * 0.95**60 + 0.9 * (1 - 0.95**60)
    assert guards.best_alignment == pytest.approx(mean)
    # 0.1 + (mean - 0.1) 0.95^n < mean / 2 first holds for
    steps = math.ceil(math.log((mean / 2 - 0.1) / (mean - 0.1)) / math.log(0.95))
    assert told.index(message) == 61 + steps
    assert message == (
        "catastrophic overfitting: the alignment of gradients fell from 0.86 to 0.42, "
        "more than 50% (guards.alignment_drop)"
    )


def test_a_low_alignment_at_the_start_and_a_slow_decline_are_no_overfitting() -> None:
    guards = Guards(GuardSettings())
    values = [0.2] * 20 + [0.0] * 60 + [0.9 - 0.4 * k / 500 for k in range(500)]
    assert not any(guards.alignment(value) for value in values)
    off = Guards(GuardSettings(overfitting="off"))
    assert not any(off.alignment(value) for value in [0.9] * 60 + [0.0] * 60)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_handlers_come_back(number: signal.Signals) -> None:
    before = handlers()
    with StopRequest() as stop:
        assert stop.signal is None
        signal.raise_signal(number)
        assert stop.signal == number.name
    assert handlers() == before


def test_the_second_signal_does_what_it_always_did() -> None:
    before = handlers()

    def insist() -> None:
        with StopRequest():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        insist()
    assert handlers() == before


def test_a_second_sigterm_reaches_the_handler_of_before() -> None:
    received: list[int] = []
    handler: Callable[..., None] = lambda number, _: received.append(number)  # noqa: E731
    previous = signal.signal(signal.SIGTERM, handler)
    try:
        with StopRequest():
            signal.raise_signal(signal.SIGTERM)
            assert received == []
            signal.raise_signal(signal.SIGTERM)
            assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_handlers_come_back_after_an_exception() -> None:
    before = handlers()
    with pytest.raises(ZeroDivisionError), StopRequest():
        _ = 1 / 0
    assert handlers() == before


def test_other_threads_may_use_it_in_vain() -> None:
    seen: list[str | None] = ["unset"]

    def work() -> None:
        with StopRequest() as stop:
            seen[0] = stop.signal

    before = handlers()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None]
    assert handlers() == before
