"""Compare the suites `fast` and `auto` with `standard` on robust networks: strength and cost.

    python benchmarks/suites.py                             every network of networks.py, and masked ones
    python benchmarks/suites.py cifar10-vit-pgd --images 1000 --suites fast standard

What was evaluated is kept in benchmarks/.cache, image by image; an interrupted evaluation goes on from where
it was. With --again SUITE a suite is evaluated anew. Passes are exact; CPU seconds are comparable where two
suites ran beside the same load.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import networks
import soar
from soar.environment import environment
from soar.evaluation.interval import wilson

HERE = Path(__file__).parent
Found = dict[str, Any]


def evaluated(name: str, suite: str, images: int | None, *, again: bool) -> Found:
    """Evaluate a network with a suite, or return what that gave before."""
    folder = networks.CACHE / "suites"
    model, source, network = networks.load(name)
    images = images or network.test_images
    file = folder / f"{name}-{suite}-{images}.json"
    if file.exists() and not again:
        found: Found = json.loads(file.read_text())
        return found
    folder.mkdir(parents=True, exist_ok=True)
    test = source.test.first(images)
    began = time.process_time()
    result = soar.evaluate(
        model, (test.images, test.labels), network.threat, suite, journal=file.with_suffix(".jsonl")
    )
    forward, backward = result.passes("worst case")
    found = {
        "network": name,
        "threat": str(network.threat),
        "suite": suite,
        "images": images,
        "correct": result.correct.tolist(),
        "robust": result.survivors("worst case").tolist(),
        "attacks": {one.label: int(one.robust.sum()) for one in result.attacks},
        "protocol": result.protocol,
        "verdict": result.verdict,
        "forward": forward,
        "backward": backward,
        "cpu_seconds": time.process_time() - began,
    }
    file.write_text(json.dumps(found) + "\n")
    return found


def row(found: Found, standard: Found) -> list[str]:
    """Return the cells of a suite beside those of `standard`."""
    images, robust = found["images"], sum(found["robust"])
    low, high = wilson(robust, images)
    only = [
        sum(a and not b for a, b in zip(one["robust"], other["robust"], strict=True))
        for one, other in ((found, standard), (standard, found))
    ]
    passes = [one["forward"] + one["backward"] for one in (found, standard)]
    return [
        found["suite"],
        f"{sum(found['correct']) / images:.1%}",
        f"{robust / images:.1%} ({low:.1%}-{high:.1%})",
        f"{only[0]} / {only[1]}",
        f"{found['forward']:.0f} + {found['backward']:.0f}",
        f"{passes[0] / passes[1]:.3f}",
        f"{found['cpu_seconds'] / standard['cpu_seconds']:.3f}",
        str(found["verdict"]),
    ]


def main() -> None:
    """Evaluate, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("networks", nargs="*", default=[*networks.NETWORKS, *networks.MASKED])
    parser.add_argument("--images", type=int, help="default: what networks.py says")
    parser.add_argument("--suites", nargs="+", default=["fast", "auto", "standard"])
    parser.add_argument("--again", nargs="+", default=[], metavar="SUITE")
    parser.add_argument("--name", help="of the result files in benchmarks/results")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    sheet = Table(
        "network",
        "suite",
        "clean",
        "robust",
        "left only by it / only by standard",
        "passes",
        "ratio",
        "CPU ratio",
        "verdict",
    )
    record: list[Found] = []
    for name in chosen.networks:
        results = {
            suite: evaluated(name, suite, chosen.images, again=suite in chosen.again)
            for suite in chosen.suites
        }
        for suite, found in results.items():
            print(
                f"{name}, {suite}: {sum(found['robust'])} of {found['images']} robust, "
                f"{found['cpu_seconds']:.0f} s",
                flush=True,
            )
            sheet.add_row(name, *row(found, results.get("standard", found)))
        record += results.values()
    console = Console(record=True, width=150)
    console.print(sheet)
    if chosen.name:
        stored = {"environment": environment(), "results": record}
        (HERE / "results" / f"{chosen.name}.json").write_text(json.dumps(stored) + "\n")
        (HERE / "results" / f"{chosen.name}.txt").write_text(console.export_text())


if __name__ == "__main__":
    main()
