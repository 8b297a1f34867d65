"""How large an experiment is: seconds for tests, hours on two cores, or as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from soar.errors import unknown

Name = Literal["smoke", "small", "paper"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large networks, trainings and attacks are.

    Args:
        name: what the user calls it
        examples: how many test images are attacked
        fewer: how many for attacks that ask for thousands of predictions, by the attack's name
        caution: how the experiment differs from the paper's, shown with every number
        pass_seconds: roughly what it takes one narrow or, at paper scale, one full ResNet-10 to see an image
            and give its gradient; measured on one core of a server, at paper scale assumed for one GPU
        most: the largest value of an attack's numbers, for tests
    """

    name: Name
    examples: int
    fewer: Mapping[str, int] = field(default_factory=dict)
    caution: str
    pass_seconds: float
    most: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether networks and epochs are the paper's own; WideResNets are trained only then."""
        return self.name == "paper"

    def examples_for(self, attack: str) -> int:
        """Give how many images an attack is run on.

        >>> SCALES["small"].examples_for("pgd"), SCALES["small"].examples_for("square")
        (500, 200)
        """
        return self.fewer.get(attack, self.examples)

    def limited(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Give an attack's numbers, none above what the scale allows.

        >>> SCALES["smoke"].limited({"steps": 1000, "step_size": "2/255"})
        {'steps': 2, 'step_size': '2/255'}
        """
        return {
            key: min(value, self.most[key]) if key in self.most else value for key, value in options.items()
        }


_SMALL = (
    "Not the paper's experiment: networks with a quarter of the channels, 8 epochs without a defense and 4"
    " with one (1 in sweeps) instead of 120 to 200, all from the same undefended network, 45,000 training"
    " images, and 500 attacked images (200 for SimBA and Square) instead of 10,000. Compare rows with each"
    " other, not with the paper's level."
)
_PAPER = (
    "The paper's networks, epochs and learning rates, but not its every detail: 5,000 training images are"
    " held out and choose the checkpoint, where the paper chose on the test set; settings that it does not"
    " give (SimBA's steps, what its clipping of 10 clips) are ours."
)
_SMOKE = (
    "A test of the machinery on pictures of clothes, with a network of four channels, three updates and eight"
    " images. The numbers mean nothing."
)

SCALES: dict[str, Scale] = {
    "smoke": Scale(
        name="smoke",
        examples=8,
        caution=_SMOKE,
        pass_seconds=1e-4,
        most={"steps": 2, "restarts": 2, "queries": 5, "targets": 2, "samples": 2},
    ),
    "small": Scale(
        name="small", examples=500, fewer={"simba": 200, "square": 200}, caution=_SMALL, pass_seconds=6e-4
    ),
    # Every SimBA number of the paper is a multiple of 1/3000: three networks, 1,000 images each.
    "paper": Scale(name="paper", examples=10_000, fewer={"simba": 1000}, caution=_PAPER, pass_seconds=2e-4),
}


def scale(name: str) -> Scale:
    """Give a scale by its name.

    Raises:
        UserError: if there is none of that name
    """
    if name not in SCALES:
        raise unknown("scale", name, SCALES, "flag --scale")
    return SCALES[name]
