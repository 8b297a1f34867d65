"""Measure training steps whose inner attacks are compiled (`training.compile`) beside uncompiled ones.

    python benchmarks/compiled_passes.py          minutes; writes results/compiled_passes.{txt,json}
    python benchmarks/compiled_passes.py --quick  a tiny network, to see that it works

Both take their steps in turns in one process and one thread. Each round gives the ratio of their CPU times,
and the median over the rounds counts. A C++ compiler is needed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from soar.cost.step import take_step
from soar.cost.workload import WORKLOADS, Workload, build
from soar.environment import environment
from soar.prediction import StandIn, attacking_by
from soar.training.compiled import compiled

RESULTS = Path(__file__).parent / "results"
OBJECTIVES = ("adversarial:steps=10", "nfgsm", "soar")
NETWORKS = tuple(
    replace(WORKLOADS[name], batch_size=WORKLOADS[name].batch_size // 2)
    for name in ("resnet10-w16", "wrn-28-2", "resnet18-bn")
)
QUICK = (Workload(name="tiny", model="resnet10", options=(("width", 4),), batch_size=4),)


@dataclass(frozen=True)
class Row:
    """What was found of one objective on one network.

    Args:
        network: its name
        objective: its spec
        seconds: of the first step, wall clock; PyTorch keeps on disk what it compiled for the same network
        milliseconds: CPU time of an uncompiled step
        ratio: of a compiled step to it
    """

    network: str
    objective: str
    seconds: float
    milliseconds: float
    ratio: float


def measure(network: Workload, spec: str, repeats: int) -> Row:
    """Take steps of an objective with and without compiled passes, in turns."""
    subject = build(spec, network)
    model = subject[0].model
    stand_in = StandIn(model, compiled(model, torch.device("cpu")), network.batch_size)
    began = time.perf_counter()
    with attacking_by(stand_in):
        take_step(*subject, 0)
    seconds = time.perf_counter() - began
    times: list[float] = []
    ratios: list[float] = []
    for repeat in range(repeats + 1):
        times.append(take_step(*subject, repeat))
        with attacking_by(stand_in):
            ratios.append(take_step(*subject, repeat) / times[-1])
    return Row(
        network.name, spec, seconds, 1000 * statistics.median(times[1:]), statistics.median(ratios[1:])
    )


def table(rows: Sequence[Row]) -> str:
    """Write the rows as text."""
    lines = ["network       objective               s, first step  ms, uncompiled  compiled / uncompiled"]
    lines += [
        f"{row.network:<14}{row.objective:<24}{row.seconds:12.0f}{row.milliseconds:16.0f}{row.ratio:23.2f}"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tiny network, to see that it works")
    parser.add_argument("--repeats", type=int, default=5, help="rounds to take the median of")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    rows: list[Row] = []
    for network in QUICK if arguments.quick else NETWORKS:
        for spec in OBJECTIVES[:1] if arguments.quick else OBJECTIVES:
            torch._dynamo.reset()
            rows.append(measure(network, spec, 1 if arguments.quick else arguments.repeats))
    print(table(rows), end="")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "compiled_passes.txt").write_text(table(rows))
    record = {"rows": [asdict(row) for row in rows], "environment": environment()}
    (arguments.out / "compiled_passes.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
