from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from soar.attacks import ATTACKS, PGD, check_attack
from soar.errors import UserError
from soar.registry import Entry

# Budgets that take seconds; a transfer opens a run, so evaluation registers it, see its test_suites.py.
SMALL: dict[str, dict[str, Any]] = {
    "adaptive": {"steps": 1, "restarts": 10, "patience": 50},
    "apgd": {"steps": 6},
    "apgd-t": {"steps": 5, "targets": 2},
    "fab": {"steps": 5, "targets": 2},
    "square": {"queries": 8},
    "simba": {"queries": 8},
    "pgd": {"steps": 5},
    "fgsm": {},
}


OURS = [one for one in ATTACKS if one.name != "transfer"]


@pytest.mark.parametrize("name", [one.name for one in OURS])
def test_every_attack_keeps_the_contract(name: str) -> None:
    check_attack(ATTACKS[name].build(**SMALL[name]))


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_every_attack_is_described(entry: Entry[Any]) -> None:
    assert entry.description.endswith(".") and len(entry.description) > 20


@pytest.mark.parametrize(
    "options",
    [
        {"restarts": 3},
        {"targets": 3, "loss": "dlr"},
        {"loss": "margin", "schedule": "cosine"},
        {"random_start": False},
    ],
)
def test_pgd_keeps_the_contract_with_every_option(options: dict[str, Any]) -> None:
    check_attack(PGD(steps=3, **options))


class Batchwise(PGD):
    """Mixes the examples of a batch, which the contract forbids."""

    def score(self, logits: Tensor, state: Any) -> Tensor:
        return super().score(logits, state) * logits.mean().sign()


class Global(PGD):
    """Draws from the global generator, which the contract forbids."""

    def start(self, examples: Any, threat: Any) -> Any:
        torch.rand(1)
        return super().start(examples, threat)


@pytest.mark.parametrize(
    "attack, promise",
    [
        (Batchwise(steps=3), "do not depend on the batch size"),
        (Global(steps=3), "global generator"),
    ],
)
def test_the_checker_finds_broken_promises(attack: PGD, promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_attack(attack)


class Unfinished:
    """An attack whose author has not come to the end."""

    label, budget, stays_inside, starts_at_image = "Unfinished", 1, True, False

    def start(self) -> None: ...


@pytest.mark.parametrize(
    "given, message",
    [
        (PGD, r"got the class PGD, expected an object"),
        (Unfinished(), "Unfinished has no entries, query, wants_gradient, score, update, exhausted"),
    ],
)
def test_what_is_no_attack_is_refused_in_one_line(given: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_attack(given)
