"""`soar export`: write a trained model, or what AutoAttack found about it, as a file for others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar.cli.target import add_model_flags, external_model
from soar.errors import UserError, unknown
from soar.files import ready_folder

if TYPE_CHECKING:
    from torch import nn

    from soar.data import Dataset
    from soar.runs import Run

DESCRIPTION = (
    "Write a trained model as ONNX, TorchScript or torch.export, and check what was written; or its"
    " assessment by AutoAttack as an entry of RobustBench's leaderboards."
)
FORMATS = ("onnx", "torchscript", "torch-export", "robustbench")
EXAMPLES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the model, the format and where it goes."""
    parser.usage = (
        f"{parser.prog} RUN --format FORMAT -o PATH | "
        f"{parser.prog} --model MODEL --weights FILE --data NAME --format FORMAT -o PATH | "
        f"{parser.prog} RUN|ASSESSMENT.json --format robustbench -o PATH [--field NAME=VALUE ...]"
    )
    add_model_flags(parser)
    parser.add_argument(
        "--data", metavar="NAME", help="with --model: data whose first test images the file is checked with"
    )
    parser.add_argument("--format", choices=FORMATS, required=True, help="what to write")
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", required=True, help="the new file")
    parser.add_argument(
        "--field",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="with --format robustbench: what only you know, as in name='Title' authors='A. One, B. Two'"
        " link=URL venue='ICML 2020' additional_data=false reported=56.1",
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="the folder of all datasets")


def run(arguments: argparse.Namespace) -> int:
    """Export, run what was written, and print how well it agrees."""
    from soar import export

    if arguments.output.exists():
        raise UserError(f"--output: {arguments.output} exists already; choose another name")

    if arguments.format == "robustbench":
        return _robustbench(arguments)
    if arguments.field:
        raise UserError("--field goes with --format robustbench")
    model, data = _subject(arguments)
    ready_folder(arguments.output.parent, "--output")
    to = getattr(export, f"to_{arguments.format.replace('-', '_')}")
    print(f"saved {to(model, arguments.output, data.test.stored[:EXAMPLES])}")
    return 0


def _robustbench(arguments: argparse.Namespace) -> int:
    """Write the entry of an assessment, and say what is left to fill in."""
    from soar import runs
    from soar.evaluation import Assessment
    from soar.export import robustbench

    for flag in ("model", "weights", "data"):
        if getattr(arguments, flag) is not None:
            raise UserError(
                f"--{flag} does not go with --format robustbench; give the file that"
                " `soar evaluate --attacks standard` saved"
            )
    place: Path | None = arguments.run_folder
    if place is None:
        raise UserError("which assessment? Give a run folder or a file that `soar evaluate` saved")
    known: dict[str, Any] = {}
    if place.is_file():
        found = Assessment.load(place)
    else:
        found, known = robustbench.from_run(runs.find(place, arguments.checkpoint))
    fields = known | _fields(arguments.field)
    ready_folder(arguments.output.parent, "--output")
    print(f"saved {robustbench.to_robustbench(found, arguments.output, **fields)}")
    return 0


def _fields(given: list[str]) -> dict[str, Any]:
    """Read the fields that were given as NAME=VALUE."""
    from soar import options
    from soar.export import to_robustbench

    fields, known = {}, options.defaults(to_robustbench)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--field: got '{text}', expected NAME=VALUE, in quotes if it has spaces")
        if name not in known:
            raise unknown("field", name, known, "--field")
        fields[name] = value
    if (more := fields.get("additional_data", "true")) not in ("true", "false"):
        raise UserError(f"--field: got additional_data={more}, expected true or false")
    return {name: value == "true" if name == "additional_data" else value for name, value in fields.items()}


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
