"""Train a network of the cache, or resume its training."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

from soar import recipes
from soar.environment import choose_device
from soar.errors import UserError
from soar.experiments.cache import Cache, Log
from soar.experiments.hashing import recipe_hash
from soar.runs import Run


def train(key: str, payload: dict[str, Any], log: Log) -> None:
    """Train the network of a job unless it is there; resume where an earlier call was interrupted.

    Args:
        key: the hash of the recipe and of the network it starts from
        payload: recipe, start, cache, root, device and processes
        log: takes lines of progress

    Raises:
        UserError: if the recipe makes no sense, its data are not there, or a guard stopped the training
        KeyboardInterrupt: when a signal asked to stop, with the signal's name; a checkpoint was saved
    """
    cache = Cache(Path(payload["cache"]))
    recipe = recipes.from_table(payload["recipe"], f"job {key}")
    own = recipe_hash(recipe, payload["start"])
    if own != key:
        raise UserError(f"job {key}: its recipe has another hash, {own}")
    if payload["start"]:
        folder = str(cache.network(payload["start"]))
        recipe = replace(recipe, training=replace(recipe.training, start_from=folder))
    with cache.reserved(key, log):
        condition = cache.condition(key)
        if condition.name == "damaged":
            aside = cache.set_aside(cache.network(key))
            log(
                f"{cache.network(key)} is damaged: {condition.why}; now {aside.name}, and it is trained again"
            )
        if condition.name in ("absent", "unfinished", "damaged"):
            start = payload["start"]
            if start and not cache.is_trained(start):
                # Its weights have to be those that validation chose.
                found = f"{cache.network(start)}, is {cache.condition(start)}"
                raise UserError(f"the network to start from, {found}")
            run = Run(cache.network(key), recipe)
            together = payload.get("processes", 1) > 1
            (_train_together if together else _train_here)(run, payload, log)
            condition = cache.condition(key)
        if condition.name == "stopped":
            raise UserError(f"training was stopped: {condition.why} ({cache.network(key)})")
        if condition.name != "trained":
            raise UserError(f"{cache.network(key)} is {condition} after training")


def _train_here(run: Run, payload: dict[str, Any], log: Log) -> None:
    from soar.training.prepare import prepare

    root = Path(payload["root"]) if payload.get("root") else None
    trainer = prepare(run, device=choose_device(payload["device"]), root=root, progress="plain", resume=True)
    if not (run.path / "recipe.toml").exists():
        run.create()
    result = trainer.fit()
    if result.status == "interrupted":
        log(f"interrupted by {result.reason} after {result.steps} steps; a checkpoint was saved")
        raise KeyboardInterrupt(result.reason)


def _train_together(run: Run, payload: dict[str, Any], log: Log) -> None:
    """Train in several processes of this machine that share every batch."""
    if not (run.path / "recipe.toml").exists():
        run.create()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(payload["processes"]), "-m", "soar", "train"]
    command += ["--resume", str(run.path), "--device", payload["device"]]
    command += ["--root", payload["root"]] if payload.get("root") else []
    last: deque[str] = deque(maxlen=200)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last.append(line.strip())
                log(line.strip())
        except KeyboardInterrupt:
            # torchrun passes the signal on and gives its processes half a minute to save.
            process.terminate()
            process.communicate()
            raise
    mistakes = [line for line in last if line.startswith("soar: ")]
    if process.returncode and not (run.path / "outcome.json").exists():
        reason = mistakes[-1].removeprefix("soar: ") if mistakes else f"exit code {process.returncode}"
        raise UserError(f"training in {payload['processes']} processes failed: {reason}")
