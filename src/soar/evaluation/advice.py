"""What to do about a finding, worded for Python or for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from soar.evaluation.shapes import AdviceKind


@dataclass(frozen=True)
class Advice:
    """One thing to do.

    Args:
        text: what to do, and why it may help
        attacks: the suite or attack to evaluate with, if that is what to do
    """

    text: str
    attacks: str = ""


ADVICE: dict[AdviceKind, Advice] = {
    "straight through": Advice(
        "look in the forward pass for detach, no_grad, rounding or argmax, and attack through it"
    ),
    "average": Advice("average over the model's random numbers", "rand"),
    "scaling": Advice(
        "remove what multiplies the logits, or attack the margin, which does not saturate", "fast"
    ),
    "softmax": Advice("remove the softmax from the model, then evaluate it again"),
    "batch": Advice("give BatchNorm fixed statistics, then evaluate again"),
    "modes": Advice("let model.eval() reach every layer, then evaluate again"),
    "state": Advice("make the model's output depend on the image alone, then evaluate it again"),
    "adaptive": Advice("search in more directions, toward every other class", "fast"),
    "restarts": Advice("give PGD more starts, on the cross-entropy and on the margin", "restarts"),
    "autoattack": Advice("run all of AutoAttack", "standard"),
    "square": Advice("run Square, which needs no gradients, for longer", "square:queries=5000"),
    "transfer": Advice("try the adversarial images of another network that was trained on the same data"),
    "diagnose": Advice("run all checks"),
}
"""every kind of advice, in the order of how likely it helps where gradients are masked"""


def as_python(kind: AdviceKind, module: str = "") -> str:
    """Return a line of advice for Python, where `model`, `data` and `threat` are what was given.

    Args:
        kind: the kind of advice
        module: the name of the module in which the gradient is lost, if it is known

    >>> as_python("average")
    "average over the model's random numbers: soar.evaluate(model, data, threat, 'rand')"
    """
    one = ADVICE[kind]
    if one.attacks:
        return f"{one.text}: soar.evaluate(model, data, threat, '{one.attacks}')"
    if kind == "straight through":
        attacked = _attackable("model", module)
        return f"{one.text}: soar.evaluate({attacked}, data, threat)" if module else f"{one.text}; {attacked}"
    if kind == "transfer":
        return f"{one.text}: soar.diagnose(model, data, threat, sources={{'other': other_model}})"
    return f"{one.text}: soar.diagnose(model, data, threat)" if kind == "diagnose" else one.text


def as_command(kind: AdviceKind, target: str, sources: Sequence[str] = (), module: str = "") -> str:
    """Return a line of advice for the command line.

    Args:
        kind: the kind of advice
        target: the run folder, or the flags that name the model
        sources: other run folders, from which attacks may be transferred
        module: the name of the module in which the gradient is lost, if it is known

    >>> as_command("square", "runs/a")
    'run Square, which needs no gradients, for longer: soar evaluate runs/a --attacks square:queries=5000'
    >>> as_command("transfer", "runs/a", ["runs/b"]).partition(": ")[2]
    'soar diagnose runs/a --source runs/b'
    """
    one = ADVICE[kind]
    if one.attacks:
        return f"{one.text}: soar evaluate {target} --attacks {one.attacks}"
    if kind == "straight through":
        return f"{one.text}; in Python: {_attackable('model', module)}"
    if kind == "transfer":
        flags = "".join(f" --source {source}" for source in sources)
        return f"{one.text}: soar diagnose {target}{flags}" if flags else f"{one.text} (flag --source)"
    return f"{one.text}: soar diagnose {target}" if kind == "diagnose" else one.text


def _attackable(model: str, module: str) -> str:
    """Return how to attack through a module, or how to make what is none one."""
    if module:
        return f"soar.attacks.straight_through({model}, {{'{module}': None}})"
    return (
        "make it a module of its own, called quantize for instance, and attack"
        f" soar.attacks.straight_through({model}, {{'quantize': None}})"
    )
