"""An objective of your own: write its loss, prove its promises, train it by any recipe.

    python examples/custom_objective.py

`Jacobian` penalizes how fast the logits change with the pixels. Registered, its name and its parameters are
fields of a recipe, and training it validates, saves and writes a run folder as for every other objective.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import soar
from soar import randomness, runs
from soar.cli.main import main as soar_command
from soar.double_backward import FastDoubleBackward
from soar.errors import UserError
from soar.objectives import OBJECTIVES, Objective, Output
from soar.threat import Threat


@OBJECTIVES.register("jacobian")
class Jacobian(Objective):
    """Cross-entropy plus the squared size of the Jacobian of the logits (Hoffman et al., 2019).

    mean_i [ -log p(y_i | x_i) + weight / 2 ||J(x_i)||_F^2 ],  ||J||_F^2 = classes E_v ||J^T v||^2

    One direction v on the unit sphere, new for each example and step, estimates the norm with one more
    backward pass.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: against what the trainer validates
        weight: of the penalty
        seed: seed of the directions
    """

    def __init__(self, model: nn.Module, threat: Threat, *, weight: float = 0.1, seed: int = 0) -> None:
        super().__init__(model, threat, seed=seed)
        if weight < 0:
            raise UserError(f"objective.weight: got {weight}, expected at least 0 (flag --objective.weight)")
        self.weight = weight

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Give cross-entropy and penalty; the numbers of an example depend on its index, not on its batch."""
        x = x.detach().requires_grad_()
        with FastDoubleBackward():  # convolutions whose slope is as cheap to differentiate again
            logits = self.model(x)
        classes = logits.shape[1]
        v = randomness.normal(randomness.key(self.seed, index, "jacobian", step), (classes,), x.dtype)
        v = v / v.norm(dim=1, keepdim=True)
        (slope,) = torch.autograd.grad((v * logits).sum(), x, create_graph=True)
        penalty = self.weight / 2 * classes * slope.flatten(1).square().sum(dim=1)
        loss = self.classification_loss(logits, y) + penalty
        return Output(loss.mean(), logits.detach(), {"penalty": penalty.detach().mean()})


def train(run: Path, weight: str, flags: list[str]) -> None:
    """Train a shipped recipe with the new objective in it, as `soar train` on the command line does."""
    fields = ["--objective", "jacobian", "--objective.weight", weight, *flags]
    code = soar_command(["train", "demo-standard", *fields, "--output", str(run), "--quiet"])
    if code:
        raise SystemExit(code)


def attack(run: Path, examples: int) -> soar.Assessment:
    """Attack the best checkpoint of a run on its own test images."""
    opened = runs.find(run)
    data = opened.data()
    return soar.evaluate(opened.trained_model(data), data.test.first(examples), opened.threat(), "quick")


def main() -> None:
    """Check the objective, train it with and without its penalty, attack both."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Any other flag is a field of the recipe, such as --training.lr 0.1.",
    )
    parser.add_argument("--weights", nargs="+", default=["0", "0.1"], help="of the penalty")
    parser.add_argument("--epochs", default="1")
    parser.add_argument("--examples", type=int, default=300, metavar="N", help="test images to attack")
    parser.add_argument("--output", type=Path, help="where the runs go (default: a folder that is removed)")
    arguments, flags = parser.parse_known_args()

    soar.objectives.check_objective(Jacobian)
    print("Jacobian keeps the contract of an objective")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.output or Path(temporary)
        for weight in arguments.weights:
            run = folder / f"jacobian-{weight}"
            train(run, weight, ["--epochs", arguments.epochs, *flags])
            found = attack(run, arguments.examples)
            print(f"weight {weight}: clean {found.accuracy('clean'):.1%}, worst case {found.worst_case:.1%}")


if __name__ == "__main__":
    main()
