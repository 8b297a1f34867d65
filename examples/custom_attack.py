"""A custom attack: propose the next points, and the engine does the rest.

    python examples/custom_attack.py

`Momentum` is the momentum iterative method (Dong et al., 2018). It never calls the model: it proposes points,
receives the logits and gradients there, and updates its state. In return the engine drops fooled examples,
refills the batch, counts passes and verifies every adversarial point. Once registered, the attack has a name:
`attacks="momentum:steps=40"`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor, nn

import soar
from soar.attacks import ATTACKS, Answer, Examples, check_attack
from soar.errors import UserError
from soar.losses import cross_entropy
from soar.shapes import per_example
from soar.threat import Threat


@dataclass(frozen=True)
class MomentumState:
    """State of the search; every tensor has one row per example."""

    examples: Examples
    points: Tensor
    velocity: Tensor
    step: Tensor
    """number of steps taken"""


@ATTACKS.register("momentum")
@dataclass(frozen=True, kw_only=True)
class Momentum:
    """Steepest ascent along a running sum of gradients, each divided by its l1 norm (MI-FGSM).

    v <- decay v + g / ||g||_1,  x' <- P(x' + (eps / steps) argmax_{||u|| <= 1} <v, u>)

    Args:
        steps: number of ascent steps, each of length eps / steps
        decay: decay factor of the velocity
    """

    steps: int = 20
    decay: float = 1.0

    stays_inside = True  # all proposed points lie in the ball
    starts_at_image = True  # so the first prediction is also the clean one

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UserError(f"attack.steps: got {self.steps}, expected at least 1")

    @property
    def label(self) -> str:
        """Label of the attack in tables."""
        return f"Momentum-{self.steps}"

    @property
    def budget(self) -> int:
        """One prediction at the image and one after each step."""
        return self.steps + 1

    def entries(self, classes: int) -> int:  # noqa: ARG002 - no restarts and no targets
        """Return 1: one run per example."""
        return 1

    def start(self, examples: Examples, threat: Threat) -> MomentumState:  # noqa: ARG002
        """Start at the image with zero velocity."""
        x = examples.x
        return MomentumState(examples, x, torch.zeros_like(x), torch.zeros_like(examples.labels))

    def query(self, state: MomentumState) -> Tensor:
        """Return the points to evaluate next."""
        return state.points

    def wants_gradient(self, state: MomentumState) -> Tensor:
        """Request a gradient at all but the last point."""
        return state.step < self.steps

    def score(self, logits: Tensor, state: MomentumState) -> Tensor:
        """Return the loss to maximize, the cross-entropy."""
        return cross_entropy(logits, state.examples.labels)

    def update(self, state: MomentumState, answer: Answer, threat: Threat) -> MomentumState:
        """Update the velocity, take a step and project onto the ball."""
        if answer.gradient is None:  # no gradient was requested after the last point
            return replace(state, step=state.step + 1)
        length = answer.gradient.abs().flatten(1).sum(dim=1).clamp_min(1e-30)
        velocity = self.decay * state.velocity + answer.gradient / per_example(length, answer.gradient)
        moved = state.points + threat.radius / self.steps * threat.ascent(velocity)
        points = threat.project(moved, state.examples.x)
        return replace(state, points=points, velocity=velocity, step=state.step + 1)

    def exhausted(self, state: MomentumState) -> Tensor:
        """Return which examples have been evaluated at their last point."""
        return state.step > self.steps


def victim(threat: Threat, batches: int) -> nn.Module:
    """Train a small network briefly with PGD, to have a model to attack."""
    model = soar.models.build("cnn6", seed=0, image_shape=(1, 28, 28), options={"width": 8})
    objective = soar.objectives.Adversarial(model, threat, steps=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    split = soar.data.load("fashion-mnist-sample").train
    plan = soar.data.training_batches(
        split, batch_size=64, seed=0, epoch=0, augmentation=soar.data.Augmentation()
    )
    for batch in islice(plan, batches):
        x, y, index = batch.on()
        optimizer.zero_grad()
        objective(x, y, index).loss.backward()
        optimizer.step()
    return model


def main() -> None:
    """Check the attack, then compare it with PGD at the same number of steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 20], help="steps of both attacks")
    parser.add_argument("--eps", default="0.1")
    parser.add_argument("--batches", type=int, default=140, help="training batches of the attacked model")
    parser.add_argument("--examples", type=int, default=500, metavar="N", help="test images to attack")
    arguments = parser.parse_args()

    check_attack(Momentum(steps=3))
    print("Momentum keeps the contract of an attack")
    threat = soar.Linf(arguments.eps)
    test = soar.data.load("fashion-mnist-sample").test.first(arguments.examples)
    wanted = [f"{name}:steps={steps}" for steps in arguments.steps for name in ("pgd", "momentum")]
    found = soar.evaluate(victim(threat, arguments.batches), test, threat, wanted)
    print(f"{'attack':<14}{'accuracy':>10}{'forward':>10}{'backward':>10}")
    for name in found.names:
        forward, backward = found.passes(name)
        print(f"{name:<14}{found.accuracy(name):>10.1%}{forward:>10.1f}{backward:>10.1f}")


if __name__ == "__main__":
    main()
