"""Sets of attacks by name, and attacks written as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from soar.attacks.attack import Attack
from soar.attacks.fgsm import FGSM
from soar.attacks.pgd import PGD
from soar.attacks.registry import ATTACKS
from soar.errors import UserError, unknown

Wanted = str | Attack[Any] | Sequence[str | Attack[Any]]

SUITES: dict[str, tuple[Attack[Any], ...]] = {
    # Climbing the margin as well as the loss shows at once when only the loss is hard to climb.
    "quick": (FGSM(), PGD(steps=20), PGD(steps=20, loss="margin")),
    "restarts": (PGD(steps=20, restarts=10), PGD(steps=20, restarts=10, loss="margin")),
}


def resolve(attacks: Wanted) -> list[Attack[Any]]:
    """Give the attacks that a name, a text, an attack or a list of these stands for.

    Args:
        attacks: a suite such as "quick"; an attack such as "fgsm" or "pgd:steps=40,restarts=5";
            an attack object; or several of them

    Raises:
        UserError: if a name or an option does not exist, or the same attack is asked for twice

    >>> [attack.label for attack in resolve(["quick", "pgd:steps=40,restarts=5"])]
    ['FGSM', 'PGD-20', 'PGD-20 margin', 'PGD-40 x5']
    """
    wanted = attacks if isinstance(attacks, Sequence) and not isinstance(attacks, str) else [attacks]
    found: list[Attack[Any]] = []
    for one in wanted:
        found += _from_text(one) if isinstance(one, str) else [one]
    labels = [attack.label for attack in found]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(
                f"attacks: got '{label}' more than once, expected different ones (flag --attacks)"
            )
    if not found:
        raise UserError("attacks: got none, expected at least one (flag --attacks)")
    return found


def _from_text(text: str) -> list[Attack[Any]]:
    if text in SUITES:
        return list(SUITES[text])
    name, _, settings = text.partition(":")
    known = [entry.name for entry in ATTACKS]
    if name not in known:
        raise unknown("attack", name, [*SUITES, *known], "flag --attacks")
    options: dict[str, Any] = {}
    for setting in filter(None, settings.split(",")):
        option, equals, value = setting.partition("=")
        if not equals:
            raise UserError(f"attacks: got '{setting}' in '{text}', expected option=value (flag --attacks)")
        options[option.strip()] = value.strip()
    return [ATTACKS.build(name, options)]
