"""A custom objective: write its loss, check its contract, train it with any recipe.

    python examples/custom_objective.py

`Jacobian` penalizes the Jacobian of the logits with respect to the pixels. Once registered, its name and its
parameters are recipe fields, and the trainer treats it like any other objective.
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
    """Cross-entropy plus the squared Frobenius norm of the Jacobian of the logits (Hoffman et al., 2019).

    mean_i [ -log p(y_i | x_i) + weight / 2 ||J(x_i)||_F^2 ],  ||J||_F^2 = classes E_v ||J^T v||^2

    One direction v on the unit sphere, new for each example and step, estimates the norm with one extra
    backward pass.

    Args:
        model: any module that maps images in [0, 1] to logits
        threat: the threat model that the trainer validates against
        weight: weight of the penalty
        seed: seed of the directions
    """

    def __init__(self, model: nn.Module, threat: Threat, *, weight: float = 0.1, seed: int = 0) -> None:
        super().__init__(model, threat, seed=seed)
        if weight < 0:
            raise UserError(f"objective.weight: got {weight}, expected at least 0 (flag --objective.weight)")
        self.weight = weight

    def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Output:
        """Compute the loss; the random direction of an example depends on its index, not on its batch."""
        x = x.detach().requires_grad_()
        with FastDoubleBackward():  # convolutions with a cheap double backward
            logits = self.model(x)
        classes = logits.shape[1]
        v = randomness.normal(randomness.key(self.seed, index, "jacobian", step), (classes,), x.dtype)
        v = v / v.norm(dim=1, keepdim=True)
        (gradient,) = torch.autograd.grad((v * logits).sum(), x, create_graph=True)
        penalty = self.weight / 2 * classes * gradient.flatten(1).square().sum(dim=1)
        loss = self.classification_loss(logits, y) + penalty
        return Output(loss.mean(), logits.detach(), {"penalty": penalty.detach().mean()})


def train(run: Path, weight: str, flags: list[str]) -> None:
    """Train a shipped recipe with the new objective, like `soar train` on the command line."""
    fields = ["--objective", "jacobian", "--objective.weight", weight, *flags]
    code = soar_command(["train", "demo-standard", *fields, "--output", str(run), "--quiet"])
    if code:
        raise SystemExit(code)


def attack(run: Path, examples: int) -> soar.Assessment:
    """Attack the best checkpoint of a run on its test images."""
    opened = runs.find(run)
    data = opened.data()
    return soar.evaluate(opened.trained_model(data), data.test.first(examples), opened.threat(), "quick")


def main() -> None:
    """Check the objective, train with and without the penalty, attack both networks."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="All other flags are recipe fields, such as --training.lr 0.1.",
    )
    parser.add_argument("--weights", nargs="+", default=["0", "0.1"], help="weights of the penalty")
    parser.add_argument("--epochs", default="1")
    parser.add_argument("--examples", type=int, default=300, metavar="N", help="test images to attack")
    parser.add_argument("--output", type=Path, help="folder for the runs (default: a temporary folder)")
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
