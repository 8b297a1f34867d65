from __future__ import annotations

from typing import Any

import pytest
import torch

from soar.attacks import PGD, Adaptive, Attack, Square
from soar.evaluation.checks import APGD_DLR, LONGER, PGD_CE, PGD_MARGIN, Tried, comparisons, worst_case
from soar.evaluation.interval import paired
from soar.threat import L1, L2, Linf, Threat
from tests.evaluation.checks.made import Behind, Linear, rounded, shared, told


def tried(label: str, name: str, leaves: int, count: int = 200, **parameters: Any) -> Tried:
    return Tried(label, name, {"steps": 20, "loss": "ce"} | parameters, torch.arange(count) < leaves)


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [
        (112, 36, "masked"),  # the SOAR of the paper
        (100, 76, "masked"),
        (100, 80, "sound"),
        (90, 72, "sound"),  # MART
        (30, 14, "masked"),  # less than half is left
        (30, 16, "sound"),
        (10, 0, "sound"),
        (100, 100, "sound"),
    ],
)
def test_the_rule(before: int, after: int, finding: str) -> None:
    base = tried("PGD-20", "PGD", before)
    found = worst_case.judge(base, [tried("Adaptive", "Adaptive", after)])
    assert found.finding == finding
    left = torch.arange(200) < after
    assert tuple(found.numbers[name] for name in ("difference", "low", "high")) == paired(base.robust, left)


def test_in_l1_the_base_is_auto_pgd() -> None:
    assert worst_case.bases(Linf("0.1")) == worst_case.bases(L2(1)) == ("PGD", "APGD")
    assert worst_case.bases(L1(1)) == ("APGD",)
    for norm, label in (("linf", "PGD-20"), ("l1", "APGD-CE 20 steps x3")):
        found = worst_case.examine(shared(Linear(), norm=norm, count=20))
        assert found.finding == "sound" and found.sentence.startswith(f"{label} leaves")


def test_the_worst_of_all_counts_together() -> None:
    """None of them alone is far below, but each finds other images."""
    count = 200
    others = [
        Tried(f"PGD-{k}", "PGD", {"steps": 20, "loss": "margin"}, ~((torch.arange(count) // 14) == k))
        for k in range(3)
    ]
    base = Tried("PGD-20", "PGD", {"steps": 20, "loss": "ce"}, torch.ones(count, dtype=torch.bool))
    assert all(worst_case.judge(base, [one]).finding == "sound" for one in others)
    assert worst_case.judge(base, others).finding == "masked"


LOSS = tried("PGD-20 margin", "PGD", 40, loss="margin")
SOFT = Tried("PGD-20 softened", "PGD", {"steps": 20, "loss": "ce"}, torch.arange(200) < 40, is_softened=True)
BUDGET = tried("PGD-100", "PGD", 40, steps=100)
OFTEN = tried("PGD-20 x5", "PGD", 40, restarts=5)
SEARCH = tried("APGD-CE", "APGD", 40)
TARGETS = tried("APGD-T", "APGD", 40, loss="dlr", targets=9)
BOTH = tried("PGD-100 margin", "PGD", 40, steps=100, loss="margin")
BLACK = tried("Square-1000", "Square", 40)
ALL = (LOSS, SOFT, BUDGET, OFTEN, SEARCH, TARGETS, BOTH, BLACK)


@pytest.mark.parametrize(
    ("helping", "cause", "advice"),
    [
        ((LOSS,), "loss", "scaling"),
        ((SOFT,), "loss", "scaling"),
        ((BUDGET,), "budget", "restarts"),
        ((OFTEN,), "budget", "restarts"),
        ((SEARCH,), "search", "adaptive"),
        ((TARGETS,), "search", "adaptive"),
        ((BOTH,), "search", "adaptive"),
        ((BLACK,), "gradients", "straight through"),
        # What changes least is named: a better search finds what another loss finds.
        ((LOSS, SEARCH, BLACK), "loss", "scaling"),
        ((TARGETS, BLACK), "search", "adaptive"),
    ],
)
def test_the_cause_is_what_alone_makes_the_difference(
    helping: tuple[Tried, ...], cause: str, advice: str
) -> None:
    others = [one if one in helping else tried(one.label, one.name, 100, **one.parameters) for one in ALL]
    found = worst_case.judge(tried("PGD-20", "PGD", 100), others)
    assert found.finding == "masked" and found.numbers["cause"] == cause
    assert found.advice[0] == advice
    assert f"({helping[0].label} 20.0%)" in found.sentence
    for other in ("loss", "budget", "search", "gradients"):
        assert (found.numbers[f"gained by {other}"] == 0.3) == any(
            worst_case.cause(one) == other for one in helping
        )


def _leave(shares: dict[Attack[Any], float]) -> Any:
    def leaves(attack: Attack[Any], threat: Threat, temperature: float) -> float:
        return shares.get(attack, 0.5)

    return leaves


@pytest.mark.parametrize(
    ("shares", "cause"),
    [
        ({PGD_MARGIN: 0.2, APGD_DLR: 0.2}, "loss"),
        ({LONGER: 0.2}, "budget"),
        ({APGD_DLR: 0.2}, "search"),
        ({Square(queries=1000): 0.2}, "gradients"),
    ],
)
def test_whatever_a_check_has_run_counts(shares: dict[Attack[Any], float], cause: str) -> None:
    under = told(_leave(shares))
    assert worst_case.examine(under).finding == ("sound" if cause in ("budget", "gradients") else "masked")
    under = told(_leave(shares))
    for attack in (LONGER, PGD(steps=20, restarts=5)):
        under.robust(attack)
    comparisons.examine_black_box(under)
    found = worst_case.examine(under)
    assert found.finding == "masked" and found.numbers["cause"] == cause


def test_attacks_beyond_eps_do_not_count() -> None:
    under = told(lambda _, threat, __: 0.5 if threat == under.target.threat else 0.0)
    under.robust(PGD_CE, threat=under.target.threat.scaled(2))
    assert worst_case.examine(under).finding == "sound"


def test_luck_is_not_counted() -> None:
    under = shared(Behind(lambda x: x + 0.05 * torch.randn_like(x)), count=30)
    found = worst_case.examine(under)
    assert found.finding == "inconclusive" and "luck" in found.sentence


def test_a_rounding_model_is_masked_for_lack_of_gradients() -> None:
    under = shared(Behind(rounded), broken=0.9, count=60)
    under.robust(Square(queries=200))
    found = worst_case.examine(under)
    assert found.finding == "masked" and found.numbers["cause"] == "gradients"


def test_a_linear_model_is_sound() -> None:
    under = shared(Linear(50.0, classes=2), count=40)
    found = worst_case.examine(under)
    assert found.finding == "sound" and found.numbers["all attacks"] == found.numbers["PGD-20"] == 0.5
    assert any(one.name == Adaptive.__name__ for one in under.tried)
