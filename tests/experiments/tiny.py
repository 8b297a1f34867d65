"""Training runs of a second or two on the bundled data, as jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from soar import recipes
from soar.experiments.hashing import recipe_hash
from soar.experiments.jobs import Job
from soar.recipes import Recipe

FLAGS = [
    *("--model.width", "4", "--max_steps", "4", "--batch_size", "16", "--epochs", "1"),
    *("--data.validation", "100", "--validation.examples", "10", "--validation.steps", "1"),
    *("--guards.overfitting", "off"),
]


def recipe(*flags: str, name: str = "demo-standard") -> Recipe:
    return recipes.load(name, [*FLAGS, *flags])


def training(cache: Path, *flags: str, start: str = "", name: str = "demo-standard", **more: Any) -> Job:
    wanted = recipe(*flags, name=name)
    payload = {
        "recipe": wanted.as_table(),
        "start": start,
        "cache": str(cache),
        "root": None,
        "device": "cpu",
        "processes": 1,
    }
    key = recipe_hash(wanted, start)
    needs = (start,) if start else ()
    return Job(key=key, kind="train", title=f"train {key}", payload=payload | more, needs=needs)


def measurement(cache: Path, network: str, key: str = "m", **sources: str) -> Job:
    payload = {
        "network": network,
        "measurement": {"kind": "clean"},
        "examples": 8,
        "seed": 0,
        "sources": sources,
        "cache": str(cache),
        "root": None,
        "device": "cpu",
    }
    needs = (network, *sources.values())
    return Job(key=key, kind="measure", title=f"measure {key}", payload=payload, needs=needs)
