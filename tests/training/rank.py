"""One of several processes that train together, run by `test_distributed`."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import safetensors.torch
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from soar import distributed
from soar.errors import UserError
from soar.objectives import OBJECTIVES, Output
from soar.options import literal
from soar.recipes.settings import GuardSettings
from soar.threat import Linf
from soar.training import stopwatch
from soar.training.trainer import Trainer
from soar.training.updates import Updates
from tests.training import small

OPTIONS: dict[str, Any] = globals().get("OPTIONS", {})


# Every objective as it is by default, and those options that look at the whole batch.
NAMES = [
    *(entry.name for entry in OBJECTIVES),
    "standard sigma=0.25",
    "soar penalty_grad_clip=0.01",
    "adversarial training.weight_perturbation=0.05",
    "mma training.weight_perturbation=0.05",
    "standard training.optimizer=muon",
    "soar penalty_grad_clip=0.01 training.weight_perturbation=0.05",
]


def trainer(name: str, run: Path, **options: Any) -> Trainer:
    """Train a registered objective, in float64 and without BatchNorm; options may be of training, too."""
    make = small.deep_network if "muon" in name else small.network
    model = make(dtype=torch.float64)
    kind, *settings = name.split()
    chosen = dict(setting.split("=") for setting in settings)
    own = {field: text for field, text in chosen.items() if not field.startswith("training.")}
    rest = {field.removeprefix("training."): literal(chosen[field]) for field in chosen.keys() - own.keys()}
    objective = OBJECTIVES.build(kind, own, model, Linf("8/255"), seed=3)
    changes = {"max_steps": 3, "accumulation_steps": 2, "ema_decay": 0.9, "lr": 0.02} | rest | options
    guards = GuardSettings(explosion=1e9, overfitting="off")
    return small.trainer(run, objective=objective, guards=guards, **changes)


# What keeps values beyond an update.
REMEMBERING = ["mma max_margin=0.3", "pgi reset_after=2", "elle adaptive=true training.lr=0.3"]


def remembering(name: str, run: Path) -> dict[str, torch.Tensor]:
    """Train beyond the first epoch, when examples come to other processes than before.

    Returns:
        The weights and what the objective remembers.
    """
    training = trainer(name, run, max_steps=14, momentum=0.0)
    training.fit()
    state = training.objective.state_dict()
    return small.weights(training) | {name: x for name, x in state.items() if name.endswith("_extra_state")}


def collectives(world: distributed.World) -> dict[str, Any]:
    """Use every collective once, with values that tell who gave them."""
    buffer = torch.tensor([10.0 + world.rank])
    world.copy_from_main([buffer])
    return {
        "rank": world.rank,
        "gather": world.gather({"rank": world.rank}),
        "mean": world.mean(torch.tensor([float(world.rank)])).tolist(),
        "from_main": world.from_main(f"said by {world.rank}"),
        "on_main": world.on_main(lambda: f"done by {world.rank}"),
        "refused": _refused(world),
        "copy": buffer.tolist(),
        "nested": _nested(),
    }


def _refused(world: distributed.World) -> str:
    def refuse() -> None:
        raise UserError(f"refused by {world.rank}")

    try:
        world.on_main(refuse)
    except UserError as error:
        return str(error)
    return "nothing was refused"


def _nested() -> int:
    with distributed.joined("cpu") as inner:
        return inner.size


def interrupted(run: Path, rank: int) -> str:
    """Only one process gets the signal; all must stop after the same step."""

    class Interrupt:
        def log(self, step: int, row: Mapping[str, float | str]) -> None:
            if step == 2:
                os.kill(other, signal.SIGTERM)

        def close(self) -> None: ...

    other = distributed.current().gather(os.getpid())[1]
    sinks = [Interrupt()]
    result = trainer("standard", run, sinks=sinks, max_steps=6).fit()
    return f"{result.status} by {result.reason} after {result.steps}"


def timed(run: Path, rank: int) -> list[float]:
    """Train for a minute of which an update takes four seconds here and eight there; give the rates."""
    times = {"wall": 0.0}

    class Slow(small.Plain):
        def compute(self, x: torch.Tensor, y: torch.Tensor, index: torch.Tensor, step: int) -> Output:
            times["wall"] += 4 + 4 * rank
            return super().compute(x, y, index, step)

    objective = Slow(small.network(), Linf("8/255"))
    with patch.object(stopwatch, "read", lambda _: times["wall"]):
        return _rates(small.trainer(run, objective=objective, epochs=10, minutes=1.0))


def _rates(made: Trainer) -> list[float]:
    rates: list[float] = []
    prepare = made.updates.prepare

    def noted(position: int) -> dict[str, float]:
        found = prepare(position)
        rates.append(found["lr"])
        return found

    made.updates.prepare = noted  # type: ignore[method-assign]
    made.fit()
    return rates


def main(*, rank: int, folder: str, port: int) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    root = Path(folder)
    found: dict[str, Any] = {}
    with distributed.joined("cpu") as world:
        found["collectives"] = collectives(world)
        for name in NAMES:
            trained = trainer(name, root / name)
            trained.fit()
            assert trained.updates.wrapped is trained.objective, "the wrapper outlives the process group"
            file = root / f"{name}-{rank}.safetensors"
            safetensors.torch.save_file(small.weights(trained), file)
        for name in REMEMBERING:
            remembered = remembering(name, root / f"remembering {name}")
            safetensors.torch.save_file(remembered, root / f"remembering {name}-{rank}.safetensors")
        found["interrupted"] = interrupted(root / "interrupted", rank)
        resumed = trainer("standard", root / "interrupted", resume=True, max_steps=6)
        found["resumed"] = resumed.fit().status
        found["timed"] = timed(root / "timed", rank)
        validated = small.trainer(root / "batchnorm", objective=batch_norm(), max_steps=3)
        found["scores"] = vars(validated.fit().last_scores)
        found["statistics"] = [buffer.tolist() for buffer in validated.objective.model.buffers()]
        found["exchanges"] = exchanges("standard", root / "exchanges")
        found["more exchanges"] = exchanges(NAMES[-1], root / "more exchanges")
    (root / f"found-{rank}.json").write_text(json.dumps(found))


def exchanges(name: str, run: Path) -> int:
    """Count how often gradients are exchanged in three updates of two micro-batches each."""
    counter = itertools.count()

    class Counting(Updates):
        @contextmanager
        def shared_among(self, world: distributed.World) -> Iterator[None]:
            with super().shared_among(world):
                assert isinstance(self.wrapped, DistributedDataParallel)
                self.wrapped.register_comm_hook(
                    None, lambda state, bucket: (next(counter), allreduce_hook(state, bucket))[1]
                )
                yield

    training = trainer(name, run)
    training.updates.__class__ = Counting
    training.fit()
    return next(counter)


def batch_norm() -> small.Plain:
    """BatchNorm keeps statistics of its own in every process."""
    model = torch.nn.Sequential(torch.nn.BatchNorm2d(1), small.network())
    return small.Plain(model, Linf("8/255"))


if OPTIONS:
    main(**OPTIONS)
