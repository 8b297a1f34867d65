"""The state of a training run, and the run folder that keeps it: lock, metrics and checkpoints."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from soar import checkpoints
from soar.distributed import World
from soar.errors import UserError
from soar.locks import run_lock
from soar.progress import Progress
from soar.training.guards import Guards
from soar.training.stopwatch import Stopwatch
from soar.training.tracking import MetricsFile, Sink
from soar.training.updates import Updates
from soar.training.validation import Scores
from soar.weights import fill

# Where training stands in its data: all of a checkpoint's "data" that a resumed run does not keep.
_PLACE = ("epoch", "batch")


@dataclass
class TrainerState:
    """The state of a training besides its tensors.

    Args:
        guards: the limits, and the running means that are checked
        step: updates made
        best: the best validation so far
        last: the latest validation
    """

    guards: Guards
    step: int = 0
    best: Scores | None = None
    last: Scores | None = None

    @property
    def overfitting(self) -> str | None:
        """Why the latest validation indicates catastrophic overfitting, or None."""
        if not self.best or not self.last or self.best.robust is None or self.last.robust is None:
            return None
        return self.guards.overfitting(self.best.robust, self.last.robust)

    def record(self, scores: Scores, select: str) -> None:
        """Record a validation, as the best one if it is.

        >>> from soar.recipes.settings import GuardSettings
        >>> state = TrainerState(Guards(GuardSettings()))
        >>> for step, robust in enumerate((0.3, 0.4, 0.2), start=1):
        ...     state.record(Scores(step, 0.8, robust), "robust")
        >>> state.best.step, state.last.step
        (2, 3)
        """
        self.last = scores
        if scores.beats(self.best, select):
            self.best = scores

    def state_dict(self) -> dict[str, Any]:
        """Return the state in a form that JSON can hold."""
        held = asdict(self)
        del held["guards"]["settings"]
        return held

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self.step = state["step"]
        self.best, self.last = (Scores(**state[key]) if state[key] else None for key in ("best", "last"))
        self.guards = Guards(self.guards.settings, **state["guards"])


class CheckpointManager:
    """Write the checkpoints and metrics of a training run to its run folder, and restore them.

    Args:
        run: the run folder; nothing in it is ever deleted but old checkpoints
        state: the state to save and restore
        updates: holds the weights and the optimizer
        identity: what decides which example is in which batch; a resumed run must keep it
        rule: which checkpoint counts as the best, in words
        sinks: further destinations of metrics besides `metrics.jsonl`
    """

    def __init__(
        self,
        run: Path,
        state: TrainerState,
        updates: Updates,
        *,
        identity: Mapping[str, int],
        rule: str,
        sinks: Sequence[Sink] = (),
    ) -> None:
        self.run, self.state, self.updates = run, state, updates
        self.identity, self.rule, self.sinks = identity, rule, sinks
        self.metrics: MetricsFile | None = None
        self._held = ExitStack()
        self._saved: tuple[int, Scores | None] = (0, None)
        self._saved_best: Scores | None = None
        self._saved_at = time.monotonic()
        self.stopwatch = Stopwatch()

    @property
    def epoch(self) -> float:
        """Epochs made."""
        return self.state.step / self.updates.steps_per_epoch

    @property
    def best(self) -> Path:
        """The folder of the best checkpoint, whether it has been written or not."""
        step = self.state.best.step if self.state.best else self.state.step
        return self.run / checkpoints.FOLDER / checkpoints.name_of(step)

    def open(self, world: World, *, resume: bool) -> None:
        """Lock the folder and, to resume, restore the newest usable checkpoint.

        Raises:
            UserError: when the folder holds a training and `resume` is not set, when another process trains
                there, or when its checkpoints belong to other settings
        """
        self.stopwatch.start()
        world.on_main(lambda: self._held.enter_context(run_lock(self.run)))
        snapshot = world.on_main(lambda: checkpoints.open_run(self.run, resume=resume))
        if snapshot is not None:
            self._restore(snapshot, world)
        rows = snapshot.state["metrics_rows"] if snapshot else 0
        world.on_main(lambda: self._open_files(rows))

    def log(self, row: dict[str, float | str]) -> None:
        """Write a row of metrics to every sink."""
        whole = {"epoch": self.epoch} | row | {name: round(x, 3) for name, x in self._times().items()}
        for sink in self._all_sinks():
            try:
                sink.log(self.state.step, whole)
            except OSError as error:
                warnings.warn(f"{type(sink).__name__} takes no more metrics ({error})", stacklevel=2)
                self.sinks = [other for other in self.sinks if other is not sink]

    def is_overdue(self) -> bool:
        """Return whether the newest checkpoint is older than the settings allow."""
        return time.monotonic() - self._saved_at >= 60 * self.updates.settings.save_minutes

    def is_due(self) -> bool:
        """Return whether this step or its validation calls for a checkpoint."""
        every, step = self.updates.settings.save_steps, self.state.step
        return self.state.best != self._saved_best or (every is not None and step > 0 and step % every == 0)

    def save(self, world: World, bar: Progress, *, must_succeed: bool) -> None:
        """Write a checkpoint; a full disk in mid-training causes a warning, but does not end the training.

        Raises:
            UserError: if it cannot be written and `must_succeed` is set
        """
        state = self.state
        if (state.step, state.last) == self._saved:
            return
        generators = world.gather(self.updates.generator_states())
        problem: str | None = None
        if world.is_main:
            try:
                self._write({"generators": generators})
            except OSError as error:
                problem = f"cannot save a checkpoint in {self.run} ({error})"
        problem = world.from_main(problem)
        if problem and must_succeed:
            raise UserError(f"{problem}; earlier checkpoints are untouched")
        if problem:
            bar.note(f"warning: {problem}; training goes on")
            state.best = self._saved_best
        else:
            self._saved, self._saved_best = (state.step, state.last), state.best
        self._saved_at = time.monotonic()

    def close(self) -> None:
        """Close the sinks and release the lock."""
        for sink in self._all_sinks():
            sink.close()
        self._held.close()

    def _write(self, generators: dict[str, Any]) -> None:
        assert self.metrics is not None
        self.metrics.sync()
        average = self.updates.average
        epoch, batch = divmod(self.state.step, self.updates.steps_per_epoch)
        snapshot = checkpoints.Snapshot(
            model=self.updates.objective.model.state_dict(),
            ema=average.model.state_dict() if average else None,
            trainer=self.updates.state_dict() | generators,
            state=self.state.state_dict()
            | {
                "data": dict(zip(_PLACE, (epoch, batch), strict=True)) | dict(self.identity),
                "selection": self.rule,
                "metrics_rows": self.metrics.rows,
            }
            | self._times(),
        )
        checkpoints.save(self.run, snapshot)
        # The checkpoint is there and records itself which one is the best; tidying is tried again next time.
        with suppress(OSError):
            self._tidy()

    def _tidy(self) -> None:
        checkpoints.mark_best(self.run, self.best.name)
        checkpoints.prune(self.run, keep=self.best.name)

    def _open_files(self, rows: int) -> None:
        if self.best.exists():
            # The process that wrote the checkpoint may have been killed before it came to this.
            self._tidy()
        self.metrics = MetricsFile(self.run, rows=rows)

    def _restore(self, snapshot: checkpoints.Snapshot, world: World) -> None:
        state, where = snapshot.state, f"the checkpoint in {self.run}"
        # Only a training with a second source mentions it.
        for name in dict.fromkeys([*self.identity, *state["data"]]):
            now = self.identity.get(name, 0)
            if name not in _PLACE and (before := state["data"].get(name, 0)) != now:
                raise UserError(
                    f"{self.run}: the run has {name} {before}, got {now}; a resumed run must keep it"
                )
        fill(self.updates.objective.model, snapshot.model, where)
        if self.updates.average and snapshot.ema is not None:
            fill(self.updates.average.model, snapshot.ema, where)
        self.updates.load_state_dict(snapshot.trainer)
        generators = snapshot.trainer["generators"]
        if len(generators) == world.size:
            self.updates.restore_generators(generators[world.rank])
        self.state.load_state_dict(state)
        self._saved, self._saved_best = (self.state.step, self.state.last), self.state.best
        self.stopwatch.start(wall=state["seconds"], cpu=state.get("cpu_seconds", 0.0))

    def _times(self) -> dict[str, float]:
        return {"seconds": self.stopwatch.seconds("wall"), "cpu_seconds": self.stopwatch.seconds("cpu")}

    def _all_sinks(self) -> list[Sink]:
        return [self.metrics, *self.sinks] if self.metrics is not None else []
