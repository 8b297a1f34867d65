from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

from soar.training.signals import StopRequest


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
