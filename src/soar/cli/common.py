"""Flags that several commands share."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from soar.environment import DEVICES, choose_device
from soar.errors import UserError
from soar.progress import Mode

_COUNT = 2**31 - 1
_LIMITS: dict[str, tuple[float, float]] = {
    "batch_size": (1, _COUNT),
    "epochs": (1, _COUNT),
    "examples": (1, _COUNT),
    "jobs": (1, 1024),
    "processes": (1, 1024),
    "repeats": (1, 1_000_000),
    "seed": (0, 2**62),
    "seeds": (1, 100),
    "tflops": (1e-9, 1e9),
}
_WIDTH = 140
# OpenMP crashes with tens of thousands of threads, and more than a few per core only slow it down.
_THREADS = 64


def add_machine_flags(parser: argparse.ArgumentParser, threads: int | None = None) -> None:
    """Declare flags for the device, the threads, the data and progress; all cores are used by default."""
    parser.add_argument("--device", default="auto", metavar="|".join(DEVICES), help="where to compute")
    usual = f"CPU threads (default: {threads or 'all cores'})"
    parser.add_argument("--threads", type=int, default=threads, metavar="N", help=usual)
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all datasets")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def add_deterministic_flag(parser: argparse.ArgumentParser) -> None:
    """Declare the flag for the same bits at every run; training has a field of recipes for it."""
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="use only operations that give the same bits at every run, which on a GPU are slower",
    )


def check_numbers(arguments: argparse.Namespace) -> None:
    """Check the numbers of all flags.

    Raises:
        UserError: for a number that is too low or too high
    """
    most_threads = max(_THREADS, 4 * (os.cpu_count() or 1))
    for name, (least, most) in {**_LIMITS, "threads": (1, most_threads)}.items():
        number: float | None = getattr(arguments, name, None)
        if number is not None and not least <= number <= most:
            expected = f"at most {most}" if number > most else f"at least {least}"
            raise UserError(f"--{name.replace('_', '-')}: got {number}, expected {expected}")


def set_up_machine(arguments: argparse.Namespace) -> str:
    """Set the number of threads and return the device.

    Raises:
        UserError: if the device is not available
    """
    import torch

    device = choose_device(arguments.device)
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    return device


def mode(arguments: argparse.Namespace) -> Mode:
    """Return how progress is shown."""
    return "quiet" if arguments.quiet else "auto"


def width() -> int:
    """Return how many characters fit into a line of the terminal; COLUMNS overrides it."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns
