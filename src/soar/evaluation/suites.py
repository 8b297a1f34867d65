"""Sets of attacks by name, and attacks written as text. Every budget is an option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from torch import nn

from soar import runs, values
from soar.attacks.adaptive import Adaptive
from soar.attacks.apgd import APGD
from soar.attacks.attack import ATTACKS, Attack, Planned, require_attack
from soar.attacks.fab import FAB
from soar.attacks.pgd import FGSM, PGD
from soar.attacks.simba import SimBA
from soar.attacks.square import Square
from soar.attacks.transfer import Transfer
from soar.errors import UserError, unknown
from soar.options import parse_spec
from soar.registry import Registry

Wanted = str | Attack[Any] | Planned | Sequence[str | Attack[Any] | Planned]
Plan = list[Planned]

SUITES: Registry[Plan] = Registry("suite")
"""each is made for the norm of a threat, its first argument"""


@SUITES.register("quick")
def quick(_: str = "linf", *, steps: int = 20) -> Plan:
    """FGSM, then PGD on cross-entropy and on the margin: a first look, in seconds.

    Climbing the margin as well as the loss shows at once when only the loss is hard to climb.
    """
    return _alone(FGSM(), PGD(steps=steps), PGD(steps=steps, loss="margin"))


@SUITES.register("fast")
def fast(norm: str = "linf", *, steps: int = 20, restarts: int = 16, patience: float = 3.0) -> Plan:
    """The adaptive attack: as strong as AutoAttack where gradients are sound, in a fraction of the passes.

    In l1 the two attacks by which AutoAttack begins there, with five times the steps, take its place.

    Args:
        norm: of the threat
        steps: of the first run
        restarts: how many runs follow the first at most
        patience: how many restarts an example gets that is half way between the image and the border
    """
    if norm == "l1":
        return standard(norm, steps=5 * steps)[:2]
    return [Planned(Adaptive(steps=steps, restarts=restarts, patience=patience), survivors_only=True)]


@SUITES.register("auto")
def auto(norm: str = "linf", *, queries: int = 200) -> Plan:
    """`fast` and a short Square attack; then all of AutoAttack, or `rand`, where the checks find reasons to.

    Square needs no gradients, so what it breaks of what `fast` has left shows that these mislead. With
    nothing found against the model, the cheap attacks decide.

    Args:
        norm: of the threat
        queries: of the short Square attack
    """
    cheap = [*fast(norm), Planned(Square(queries=queries), survivors_only=True)]
    thorough = [replace(one, condition="unsound") for one in standard(norm) if one not in cheap]
    return [*cheap, *thorough, *(replace(one, condition="random") for one in rand())]


@SUITES.register("restarts")
def restarts(_: str = "linf", *, steps: int = 20, restarts: int = 10) -> Plan:
    """PGD from many random starts, on cross-entropy and on the margin."""
    return _alone(PGD(steps=steps, restarts=restarts), PGD(steps=steps, restarts=restarts, loss="margin"))


@SUITES.register("paper")
def paper(_: str = "linf", *, long_steps: int = 1000, restarts: int = 50, queries: int = 5000) -> Plan:
    """Every attack of the SOAR paper's tables, each alone on all examples; transfer needs a source.

    Args:
        long_steps: of the longest PGD
        restarts: of PGD-20
        queries: of Square and of SimBA
    """
    return _alone(
        FGSM(),
        PGD(steps=20),
        PGD(steps=100),
        PGD(steps=200),
        PGD(steps=long_steps),
        PGD(steps=20, restarts=restarts),
        APGD(),
        APGD(loss="dlr", targets=9),
        FAB(),
        Square(queries=queries),
        SimBA(queries=queries),
        SimBA(queries=queries, loss="margin"),
    )


@SUITES.register("standard")
def standard(norm: str = "linf", *, steps: int = 100, targets: int = 9, queries: int = 5000) -> Plan:
    """AutoAttack: APGD-CE, APGD-T, FAB-T and Square, each only on what the ones before it have left.

    In l1, as there, APGD-CE starts five times, and APGD-T climbs to five classes at most.

    Args:
        norm: of the threat
        steps: of the first three
        targets: of APGD-T and FAB-T
        queries: of Square
    """
    return [
        Planned(attack, survivors_only=True)
        for attack in (
            APGD(steps=steps, restarts=5 if norm == "l1" else 1),
            APGD(steps=steps, loss="dlr", targets=min(targets, 5) if norm == "l1" else targets),
            FAB(steps=steps, targets=targets),
            Square(queries=queries),
        )
    ]


@SUITES.register("rand")
def rand(_: str = "linf", *, steps: int = 100, samples: int = 20) -> Plan:
    """For randomized models: APGD-CE and APGD-DLR on the mean of several outputs, on survivors only.

    Args:
        steps: of both
        samples: outputs to average at every point
    """
    kinds = (APGD(steps=steps), APGD(steps=steps, loss="dlr"))
    return [Planned(attack, survivors_only=True, samples=samples) for attack in kinds]


@ATTACKS.register("transfer")
def transfer(
    *, source: str, steps: int = 20, step_size: str | float | Fraction | None = None, root: str | None = None
) -> Transfer:
    """PGD on the model of another run, shown to this one.

    Args:
        source: the run folder of the model whose gradients are followed
        steps: of PGD
        step_size: of PGD
        root: the folder of all datasets, where the source was trained on another one
    """
    opened = runs.find(source)
    data = opened.data(None if root is None else values.place(root, "attack.root"))
    attack = PGD(steps=steps, step_size=step_size)
    return Transfer(source=opened.trained_model(data), source_name=opened.path.name, attack=attack)


def resolve(attacks: Wanted, norm: str = "linf") -> Plan:
    """Return what a name, a text, an attack or a list of these stands for.

    Args:
        attacks: a suite such as "quick" or "standard:queries=1000"; an attack such as "fgsm" or
            "pgd:steps=40,restarts=5"; an attack object, alone or with its use; or several of them
        norm: that of the threat, for which suites are made

    Raises:
        UserError: if a name or an option does not exist, or the same attack is asked for twice

    >>> [one.attack.label for one in resolve(["quick", "pgd:steps=40,restarts=5"])]
    ['FGSM', 'PGD-20', 'PGD-20 margin', 'PGD-40 x5']
    """
    wanted = attacks if isinstance(attacks, Sequence) and not isinstance(attacks, str) else [attacks]
    found: Plan = []
    for one in wanted:
        if isinstance(one, str):
            found += _from_text(one, norm)
        elif isinstance(one, Planned):
            found.append(one)
        else:
            require_attack(one)
            found.append(Planned(one))
    labels = [(one.attack.label, one.condition) for one in found]
    for label, condition in labels:
        others = [other for other, when in labels if condition == when or "always" in (condition, when)]
        if others.count(label) > 1:
            raise UserError(
                f"attacks: got '{label}' more than once, expected different ones (flag --attacks)"
            )
    if not found:
        raise UserError("attacks: got none, expected at least one (flag --attacks)")
    return found


def describe(planned: Planned) -> dict[str, Any]:
    """Return an attack's name, its numbers and the rules of its use, as they are stored.

    >>> from soar.attacks import FGSM
    >>> describe(Planned(FGSM()))["name"]
    'FGSM'
    """
    attack = planned.attack
    numbers = {one.name: getattr(attack, one.name) for one in fields(attack)}  # type: ignore[arg-type]
    parameters = {
        key: value
        if isinstance(value, bool | int | float | str | None)
        else getattr(value, "__name__", None) or str(value)
        for key, value in numbers.items()
        if not isinstance(value, nn.Module)
    }
    return {
        "name": type(attack).__name__,
        "parameters": parameters,
        "survivors_only": planned.survivors_only,
        "samples": planned.samples,
    }


def _alone(*attacks: Attack[Any]) -> Plan:
    return [Planned(attack) for attack in attacks]


def _from_text(text: str, norm: str) -> Plan:
    name, options = parse_spec(text, "attacks")
    suites, single = [entry.name for entry in SUITES], [entry.name for entry in ATTACKS]
    if name not in [*suites, *single]:
        raise unknown("attack", name, [*suites, *single], "flag --attacks")
    if name in suites:
        return SUITES.build(name, options, norm)
    return [Planned(ATTACKS.build(name, options))]
