"""Try the verdict of `soar diagnose` on networks whose answer is known, and print the confusion table.

    soar study baselines                 honest networks, each trained in another way
    soar study masking                   SOAR with a zero start in the paper's settings, which masks
    python benchmarks/masking.py         diagnose them all, and networks that hide their gradients on purpose

The latter are the standard network behind something that stops gradients or spoils the loss: rounded pixels,
JPEG, logits multiplied by 1,000, and noise. Every one of them is as easy to fool as the network itself. A
linear classifier closes the list: for it the gradient is all there is to know.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import soar
from soar import data, runs
from soar.environment import environment
from soar.evaluation.diagnosis import Diagnosis

HERE = Path(__file__).parent
HONEST = ("standard", "PGD-10", "TRADES", "MART", "MMA", "CURE", "LLR", "FOAR", "SOAR")


class Hidden(nn.Module):
    """A network behind a function of its input that has no useful gradient.

    Args:
        network: what is hidden
        change: what happens to the pixels before the network sees them
        factor: what its logits are multiplied by
    """

    def __init__(
        self, network: nn.Module, change: Callable[[Tensor], Tensor] | None = None, factor: float = 1.0
    ) -> None:
        super().__init__()
        self.network, self.change, self.factor = network, change, factor

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.network(x if self.change is None else self.change(x)) * self.factor
        return logits


def rounded(x: Tensor) -> Tensor:
    """Round pixels to 8 levels: the gradient is zero everywhere."""
    return (7 * x).round() / 7


def jpeg(x: Tensor, quality: int = 75) -> Tensor:
    """Store every image as a JPEG file and read it again."""
    pixels = (255 * x.detach()).round().to(torch.uint8).cpu().movedim(1, -1).squeeze(-1).numpy()
    read = []
    for image in pixels:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        read.append(numpy.asarray(Image.open(file)))
    return torch.from_numpy(numpy.stack(read)).reshape(len(x), *x.shape[2:], -1).movedim(-1, 1).to(x) / 255


def noisy(x: Tensor) -> Tensor:
    """Add noise that is new at every call."""
    return (x + 0.1 * torch.randn_like(x)).clamp(0, 1)


def linear(split: data.Split, classes: int, steps: int = 300) -> nn.Module:
    """Train a linear classifier by full-batch gradient descent."""
    x = split.images.float() / 255
    layer = nn.Linear(x[0].numel(), classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    model = nn.Sequential(nn.Flatten(), layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), split.labels).backward()
        optimizer.step()
    return model.eval()


SIGNS = {"sound": "", "inconclusive": "-", "suspicious": "?", "masked": "M"}


@dataclass(frozen=True)
class Case:
    """A network, what the verdict should be, and what it was."""

    name: str
    expected: str
    verdict: str
    strongest: str
    """the gravest item of evidence, in a sentence"""
    findings: dict[str, str]
    """what each check alone says"""
    seconds: float


def networks(baselines: Path, masking: Path) -> Iterator[tuple[str, str, nn.Module, runs.Run]]:
    """Return every network with its name, what should be said of it, and the run with its data and threat."""
    folders = {path.name: path for path in baselines.iterdir() if (path / "recipe.toml").exists()}
    for name in HONEST:
        if name.lower() in folders:
            run = runs.find(folders[name.lower()])
            yield name, "sound", run.trained_model(run.data()), run
    for path in sorted(masking.glob("soar-*/recipe.toml")):
        run = runs.find(path.parent)
        yield "SOAR, zero start", "masked", run.trained_model(run.data()), run
    run = runs.find(baselines / "standard")
    images = run.data()
    network = run.trained_model(images).eval()
    yield "standard, logits x 1000", "masked", Hidden(network, factor=1000.0), run
    yield "standard, rounded pixels", "masked", Hidden(network, rounded), run
    yield "standard, JPEG", "masked", Hidden(network, jpeg), run
    yield "standard, noise", "suspicious", Hidden(network, noisy), run
    yield "linear", "sound", linear(images.train, len(images.classes)), run


def examine(name: str, expected: str, model: nn.Module, run: runs.Run, examples: int) -> Case:
    """Diagnose one network."""
    began = time.process_time()
    found = soar.diagnose(model, run.data().test.first(examples), run.threat(), name=name)
    seconds = round(time.process_time() - began, 1)
    strongest = found.checks[0].sentence if found.against else ""
    return Case(name, expected, found.verdict, strongest, findings(found), seconds)


def findings(found: Diagnosis) -> dict[str, str]:
    """Return what each check says, in the order of the checks."""
    return {one.check: one.finding for one in sorted(found.checks, key=lambda one: one.check)}


def table(cases: list[Case]) -> Table:
    """Show every case, what each check said and whether the verdict is right."""
    made = Table(title="The verdict on networks whose answer is known", title_justify="left")
    for heading in ("network", "should be", "verdict", *cases[0].findings, "CPU s"):
        made.add_column(heading, justify="right" if heading == "CPU s" else "left")
    for case in cases:
        mark = "" if case.verdict == case.expected else " !"
        words = [SIGNS[word] for word in case.findings.values()]
        made.add_row(case.name, case.expected, case.verdict + mark, *words, f"{case.seconds:.0f}")
    right = sum(case.verdict == case.expected for case in cases)
    made.caption = f"{right} of {len(cases)} as they should be; M: masked, ?: suspicious by this check alone"
    made.caption_justify = "left"
    return made


def main(argv: list[str] | None = None) -> None:
    """Diagnose all networks, print the table and save it."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--baselines", type=Path, default=Path("runs/study-baselines"))
    parser.add_argument("--masking", type=Path, default=Path("runs/study-masking"))
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the result files")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    cases = []
    for name, expected, model, run in networks(arguments.baselines, arguments.masking):
        cases.append(examine(name, expected, model, run, arguments.examples))
        print(f"{name}: {cases[-1].verdict}, {cases[-1].seconds} s", flush=True)
    console = Console(record=True, width=170)
    console.print(table(cases))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "masking.txt").write_text(console.export_text())
    content = {"cases": [asdict(case) for case in cases], "environment": environment()}
    (arguments.out / "masking.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
