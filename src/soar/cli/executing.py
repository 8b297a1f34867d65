"""Flags of commands that share work among processes or machines, and the executor that they ask for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from soar.environment import DEVICES, choose_device
from soar.errors import printable

if TYPE_CHECKING:
    from soar.reproduce.planning.plan import Plan
    from soar.reproduce.running.job import Ending, Executor

CACHE = Path("runs") / "reproduce"


def add_executor_flags(parser: argparse.ArgumentParser) -> None:
    """Declare who does the work, where it is kept and what is shown."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes at once (default: one a core); with --cluster only the plan counts with it",
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="CPU threads of each (default: 1)"
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="processes that share each training, batch by batch; with CUDA each has a GPU (default: 1)",
    )
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="share the work by Ray: the cluster at ADDRESS, or one started here",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        metavar="DIR",
        help=f"networks and numbers that were made before (default: {CACHE})",
    )
    parser.add_argument("--device", default="auto", metavar="|".join(DEVICES), help="where to compute")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all data sets")
    parser.add_argument("--plan", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def make_executor(arguments: argparse.Namespace) -> tuple[Executor, int, str]:
    """Return the executor, how many jobs it does at once, and the device.

    Raises:
        UserError: if the device is not there or Ray is not installed
    """
    device = choose_device(arguments.device)
    from soar.reproduce.running.local import Local, cores

    if arguments.cluster is not None:
        from soar.reproduce.running.cluster import Cluster

        # Only Ray knows how many CPUs there are, and it is asked when the work begins.
        return Cluster(arguments.cluster or None), arguments.jobs or cores(), device

    # Several processes on one GPU would only wait for each other.
    local = Local(arguments.jobs or (None if device == "cpu" else 1), arguments.threads)
    return local, local.processes, device


def tell_failures(plan: Plan, endings: Mapping[str, Ending]) -> None:
    """Say once more what failed and why, below everything else; what was skipped only followed from it."""
    for job in plan.todo:
        ending = endings.get(job.key)
        if ending is not None and ending.status == "failed":
            print(f"soar: {printable(f'{job.title} failed: {ending.reason}')}", file=sys.stderr)
