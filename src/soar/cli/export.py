"""`soar export`: write a trained model as a file that other programs read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from soar.cli.target import add_model_flags, external_model
from soar.errors import UserError
from soar.files import ready_folder

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset
    from soar.runs import Run

DESCRIPTION = "Write a trained model as ONNX, TorchScript or torch.export, and check what was written."
FORMATS = ("onnx", "torchscript", "torch-export")
EXAMPLES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the model, the format and where it goes."""
    parser.usage = (
        f"{parser.prog} RUN --format FORMAT -o PATH | "
        f"{parser.prog} --model MODEL --weights FILE --data NAME --format FORMAT -o PATH"
    )
    add_model_flags(parser)
    parser.add_argument(
        "--data", metavar="NAME", help="with --model: data whose first test images the file is checked with"
    )
    parser.add_argument("--format", choices=FORMATS, required=True, help="what to write")
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", required=True, help="the new file")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all datasets")


def run(arguments: argparse.Namespace) -> int:
    """Export, run what was written, and print how well it agrees."""
    from soar import export

    if arguments.output.exists():
        raise UserError(f"--output: {arguments.output} exists already; choose another name")

    model, data = _subject(arguments)
    ready_folder(arguments.output.parent, "--output")
    to = getattr(export, f"to_{arguments.format.replace('-', '_')}")
    print(f"saved {to(model, arguments.output, data.test.pictures[:EXAMPLES])}")
    return 0


def _subject(arguments: argparse.Namespace) -> tuple[nn.Module, Dataset]:
    """Open the run, or build the model from elsewhere."""
    if arguments.model is None:
        run = _run(arguments)
        own = run.data(arguments.root)
        return run.trained_model(own), own
    from soar import data

    if arguments.run_folder is not None:
        raise UserError(f"got both the run {arguments.run_folder} and --model; give one of them")
    if arguments.data is None:
        raise UserError("--model needs --data too")
    source = data.load(arguments.data, root=arguments.root)
    return external_model(arguments, source)[0], source


def _run(arguments: argparse.Namespace) -> Run:
    from soar import runs

    for flag in ("weights", "data"):
        if getattr(arguments, flag) is not None:
            raise UserError(f"--{flag} goes with --model; a run folder has its own {flag}")
    if arguments.run_folder is None:
        raise UserError("which model? Give a run folder, or --model MODEL and --weights FILE")
    return runs.find(arguments.run_folder, arguments.checkpoint)
