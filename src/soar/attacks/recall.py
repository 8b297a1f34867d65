"""Remember what inner searches found, so that a second pass over the same batch need not search again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Found = TypeVar("Found")

_current: ContextVar[Callable[[Callable[[], Any]], Any] | None] = ContextVar("recall", default=None)


class Recall:
    """Records the results of searches in their order, and replays them in that order.

    An objective that is evaluated twice on one batch, as when its weights are perturbed in between, then pays
    for its attack once, without knowing: `perturb` and every search of an objective go through `recalled`.

    >>> recall = Recall()
    >>> with recall.recording():
    ...     recalled(lambda: "found")
    'found'
    >>> with recall.replaying():
    ...     recalled(lambda: "not run")
    'found'
    """

    def __init__(self) -> None:
        self._found: deque[Any] = deque()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Run searches, and record what they find."""

        def run(search: Callable[[], Any]) -> Any:
            # A search inside a search is part of its result.
            with _answering(None):
                self._found.append(search())
            return self._found[-1]

        with _answering(run):
            yield

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Return what was recorded in place of running searches, first in first out."""
        with _answering(lambda _: self._found.popleft()):
            yield


def recalled(search: Callable[[], Found]) -> Found:
    """Run a search, unless a `Recall` replays its result.

    Args:
        search: returns tensors that carry no graph
    """
    answer = _current.get()
    found: Found = search() if answer is None else answer(search)
    return found


@contextmanager
def _answering(answer: Callable[[Callable[[], Any]], Any] | None) -> Iterator[None]:
    token = _current.set(answer)
    try:
        yield
    finally:
        _current.reset(token)
