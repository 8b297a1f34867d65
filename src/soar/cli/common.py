"""Flags that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from soar.device import CHOICES, choose
from soar.errors import UserError
from soar.progress import Mode


def add_machine_flags(parser: argparse.ArgumentParser) -> None:
    """Declare where computations run and how they are shown."""
    parser.add_argument("--device", default="auto", metavar="|".join(CHOICES), help="where to compute")
    parser.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all data sets")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def set_up_machine(arguments: argparse.Namespace) -> str:
    """Set the number of threads and give the device.

    Raises:
        UserError: if the device is not there or the number of threads is not above 0
    """
    import torch

    device = choose(arguments.device)
    if arguments.threads is not None:
        if arguments.threads < 1:
            raise UserError(f"--threads: got {arguments.threads}, expected at least 1")
        torch.set_num_threads(arguments.threads)
    return device


def mode(arguments: argparse.Namespace) -> Mode:
    """Give how progress is shown."""
    return "quiet" if arguments.quiet else "auto"
