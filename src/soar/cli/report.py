"""`soar report`: one page about one or several runs, with its numbers as Markdown and LaTeX beside it."""

from __future__ import annotations

import argparse
from pathlib import Path

from soar.cli.common import add_machine_flags, mode, set_up_machine
from soar.cli.target import add_checkpoint_flag
from soar.errors import UserError
from soar.files import ready_folder

DESCRIPTION = "Write a page about one or several runs: accuracies, verdict, curves, gallery, loss surfaces."
EXAMPLES = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the runs and where the page goes."""
    parser.add_argument(
        "run_folders", nargs="+", type=Path, metavar="RUN", help="run folders of `soar train`"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page; its tables go beside it as .md and .tex"
        " (default: RUN/report.html, or report.html for several runs)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=EXAMPLES,
        metavar="N",
        help=f"test images for curves, and for an assessment where a run has none (default: {EXAMPLES})",
    )
    add_checkpoint_flag(parser)
    parser.add_argument("--seed", type=int, default=0)
    add_machine_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Gather what there is, compute what is missing, and write the page."""
    from soar import runs
    from soar.report import gather, write

    if arguments.checkpoint is not None and len(arguments.run_folders) > 1:
        raise UserError("--checkpoint: got with several runs, expected one run")
    opened = [runs.find(path, arguments.checkpoint) for path in arguments.run_folders]
    twice = {run.path for run in opened if [other.path for other in opened].count(run.path) > 1}
    if twice:
        raise UserError(f"{min(twice)} is given twice, expected different runs")
    output = arguments.output or (opened[0].path if len(opened) == 1 else Path()) / "report.html"
    write.check(output)
    ready_folder(output.parent, "--output")
    device = set_up_machine(arguments)
    try:
        contents = [
            gather.gather(
                one,
                examples=arguments.examples,
                device=device,
                root=arguments.root,
                seed=arguments.seed,
                progress=mode(arguments),
                say=(lambda _: None) if arguments.quiet else print,
            )
            for one in opened
        ]
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    for path in write.report(contents, output):
        print(f"saved {path}")
    return 0
