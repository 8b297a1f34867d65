"""What `soar reproduce`, `study`, `sweep` and `demo` share: plan, work, show, resume."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from soar import files
from soar.cli.common import add_machine_flags, mode
from soar.environment import choose_device
from soar.errors import printable

if TYPE_CHECKING:
    from soar.experiments.claims import Judged
    from soar.experiments.experiment import Experiment
    from soar.experiments.jobs import Ending, Executor
    from soar.experiments.plan import Plan
    from soar.experiments.result import Result

CACHE = Path("runs") / "cache"


def add_executor_flags(parser: argparse.ArgumentParser) -> None:
    """Declare what does the work, where it is kept and what is shown."""
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes at once (default: one per core); with --cluster only the plan uses it",
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
        help="distribute the work by Ray: the cluster at ADDRESS, or one started here",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        metavar="DIR",
        help=f"networks and numbers of earlier experiments (default: {CACHE})",
    )
    parser.add_argument("--plan", action="store_true", help="show what would be done, and do nothing")
    add_machine_flags(parser, threads=1)


def make_executor(arguments: argparse.Namespace) -> tuple[Executor, int, str]:
    """Return the executor, how many jobs it does at once, and the device.

    Raises:
        UserError: if the device is not there or Ray is not installed
    """
    device = choose_device(arguments.device)
    from soar.experiments.local import Local, cores

    if arguments.cluster is not None:
        from soar.experiments.cluster import Cluster

        # Only Ray knows how many CPUs there are, and it is asked when the work begins.
        return Cluster(arguments.cluster or None), arguments.jobs or cores(), device

    # Several processes on one GPU would only wait for each other.
    local = Local(arguments.jobs or (None if device == "cpu" else 1), arguments.threads)
    return local, local.processes, device


def carry_out(
    arguments: argparse.Namespace,
    experiments: Sequence[Experiment],
    folder: Path,
    show: Callable[[Result, Experiment], None],
    *,
    only: Collection[str] = (),
    weights: Mapping[str, Path] | None = None,
    again: Callable[[Experiment], str] = lambda _: "",
) -> int:
    """Plan, work, show; a second call resumes what an earlier one did not finish.

    Args:
        arguments: of the command
        experiments: what to measure
        folder: where results are written
        show: prints a table and writes it into the folder
        only: rows to work on; all when empty
        weights: files of the user's own by row
        again: returns the command that measures an experiment

    Returns:
        The exit code: 1 if a job failed.
    """
    from rich.console import Console

    from soar.experiments.cache import Cache
    from soar.experiments.show import terminal
    from soar.experiments.show.watch import Watch
    from soar.experiments.work import prepare

    executor, room, device = make_executor(arguments)
    work = prepare(
        experiments,
        Cache(arguments.cache),
        only=only,
        weights=weights,
        root=arguments.root,
        device=device,
        processes=arguments.processes,
    )
    if not arguments.quiet or arguments.plan:
        terminal.plan(
            Console(width=None if Console().is_terminal else 140),
            work.plan,
            room=room,
            begun=work.begun(),
            obstacles=work.obstacles(),
            whole=arguments.plan,
        )
    if arguments.plan:
        return 0
    if work.plan.todo:
        files.ready_folder(arguments.cache, "--cache")
        files.ready_folder(folder, "--output")
    try:
        with Watch(work.plan, mode(arguments)) as watch:
            went_well = work.run(executor, watch)
    except KeyboardInterrupt:
        # After hours, what is there is worth seeing.
        for result, one in zip(work.results(again), work.experiments, strict=True):
            if result.has_numbers:
                show(result, one)
        raise KeyboardInterrupt("interrupted; the same command resumes from here") from None
    try:
        for result, one in zip(work.results(again), work.experiments, strict=True):
            show(result, one)
    finally:
        print_failures(work.plan, work.endings)
    return 0 if went_well else 1


def print_and_save(
    result: Result, path: Path, *, marked: Sequence[str] = (), claims: Sequence[Judged] = ()
) -> None:
    """Print a table, and save its numbers and what was printed.

    Args:
        result: the table
        path: the JSON file; the text goes beside it
        marked: the best row, set in bold, or those tied for the best
        claims: the claims about it, judged
    """
    from rich.console import Console

    from soar.experiments.show import terminal

    console = Console(record=True, width=None if Console().is_terminal else 140)
    terminal.table(console, result, marked=marked)
    terminal.claims(console, claims)
    result.save(path)
    files.write(path.with_suffix(".txt"), terminal.text_of(console))
    print(f"\n{path}")


def print_failures(plan: Plan, endings: Mapping[str, Ending]) -> None:
    """Repeat what failed and why, below everything else; skipped jobs only followed from it."""
    for job in plan.todo:
        ending = endings.get(job.key)
        if ending is not None and ending.status == "failed":
            print(f"soar: {printable(f'{job.title} failed: {ending.reason}')}", file=sys.stderr)
