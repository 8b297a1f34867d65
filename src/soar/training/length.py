"""How long a training lasts: for a number of epochs, or for a number of minutes."""

from __future__ import annotations

import math
from typing import NamedTuple

from soar.recipes.settings import TrainingSettings
from soar.training.schedules import schedule_steps


class Length(NamedTuple):
    """The length of a training run, and where its schedules are after some updates and seconds.

    Schedules count the updates of `epochs`. A run of `minutes` goes through all of them, too: after half
    of its time it is in the middle of its schedules, however many updates it has made.

    Args:
        settings: epochs, minutes and the largest number of updates
        steps_per_epoch: updates per epoch

    >>> settings = TrainingSettings(epochs=10, batch_size=1, lr=1, minutes=2)
    >>> length = Length(settings, steps_per_epoch=6)
    >>> [length.position(7, seconds) for seconds in (0, 30, 119.9)], length.expected_steps(7, 30)
    ([0, 15, 59], 28)
    """

    settings: TrainingSettings
    steps_per_epoch: int

    @property
    def schedule_steps(self) -> int:
        """Updates that the schedules count."""
        return schedule_steps(self.settings, self.steps_per_epoch)

    def is_over(self, step: int, seconds: float) -> bool:
        """Return whether training ends after so many updates and seconds."""
        if step >= (self.settings.max_steps or math.inf):
            return True
        return step >= self.schedule_steps if self.settings.minutes is None else self._share(seconds) >= 1

    def position(self, step: int, seconds: float) -> int:
        """Return the update of the schedules that comes next, after so many updates and seconds."""
        if self.settings.minutes is None:
            return step
        return min(int(self.schedule_steps * self._share(seconds)), self.schedule_steps - 1)

    def expected_steps(self, step: int, seconds: float) -> int:
        """Return the number of updates in all; in a run of `minutes`, if it keeps its pace."""
        steps = self.schedule_steps
        if self.settings.minutes is not None:
            steps = round(max(step, 1) / min(max(self._share(seconds), 1e-9), 1.0))
        return min(steps, self.settings.max_steps or steps)

    def _share(self, seconds: float) -> float:
        assert self.settings.minutes is not None
        return seconds / (60 * self.settings.minutes)
