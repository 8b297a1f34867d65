from __future__ import annotations

from collections import Counter

import pytest
import torch

from soar.evaluation.files import bits
from soar.evaluation.interval import wilson
from soar.experiments.claims import judge
from soar.experiments.loading import load, tables
from soar.experiments.measure.cost import PARTS
from soar.experiments.result import Cell, Result
from tests.experiments.printed import printed

ALL = {name: load(name, scale="paper") for name in tables()}
PAPER = {name: table for name, table in ALL.items() if name not in ("cost", "theory")}

# What the paper's own numbers bear out. Claims that are not named here are held; none is contradicted: where
# the printed order is against a claim, the difference is smaller than what 10,000 test images can tell.
UNDECIDED = {
    "adv_linf": (
        "A thousand steps add little: SOAR loses less than 2 points from PGD-20 to PGD-1000.",
        "Restarts add little: SOAR loses less than 2 points from PGD-20 to PGD-20 with 50 restarts.",
    ),
    "bbox": (
        "SOAR is the most robust ResNet under attacks transferred from a ResNet.",
        "SOAR beats all defended WideResNets, too, under attacks transferred from a WideResNet.",
    ),
    "autoattack_linf": (
        "SOAR is the most robust under Square at 4/255.",
        "More robust at 8/255 does not mean more robust at 4/255: under Square, ADV and SOAR change places.",
    ),
    "adv_l2": ("Under transferred l2 attacks SOAR is second: behind ADV, before TRADES.",),
    "cifar10_l2_autoattack": ("Of the four attacks at 1.74, targeted APGD-DLR breaks SOAR most often.",),
    "svhn_blackbox": ("SOAR beats TRADES under transferred attacks.",),
    "adv_linf_with_std": (
        "A thousand steps add little: SOAR loses less than 2 points from PGD-20 to PGD-1000.",
        "Restarts add little: SOAR loses less than 2 points from PGD-20 to PGD-20 with 50 restarts.",
    ),
    "bbox_with_std": ("SOAR is the most robust ResNet under attacks transferred from a ResNet.",),
    "trades": (
        "Beta 9 is the best under PGD-20.",
        "Beta 9 is the best under every PGD attack.",
        "Beta 9 is the best under FGSM.",
        "The best beta is in the middle: one inside the range beats both ends under PGD-20.",
    ),
    "mart": (
        "Beta 9 is the best under PGD-20.",
        "Beta 9 is the best under every PGD attack.",
        "Beta 9 is the best under FGSM.",
        "The best beta is in the middle: one inside the range beats both ends under PGD-20.",
    ),
    "mma": (
        "Margin 32 is the best under PGD-20.",
        "Margin 32 is the best under every PGD attack.",
        "Margin 20 is the best under FGSM.",
        "The best margin is in the middle: one inside the range beats both ends under PGD-20.",
    ),
    "foar": ("The random start is the most robust under transferred attacks.",),
}
# Two claims are against the order of the printed numbers themselves; the others follow it.
AGAINST_THE_PRINTED_ORDER = {
    ("autoattack_linf", "SOAR is the most robust under Square at 4/255."),
    ("trades", "Beta 9 is the best under FGSM."),
}


@pytest.mark.parametrize("table", PAPER)
def test_what_the_papers_own_numbers_bear_out(table: str) -> None:
    verdicts = {one.claim.text: one.verdict for one in judge(PAPER[table].claims, printed(PAPER[table]))}
    assert verdicts == {
        claim.text: "undecided" if claim.text in UNDECIDED.get(table, ()) else "held"
        for claim in PAPER[table].claims
    }


def test_how_many_of_the_papers_claims_its_numbers_bear_out() -> None:
    verdicts = Counter(one.verdict for table in PAPER.values() for one in judge(table.claims, printed(table)))
    assert verdicts == {"held": 79, "undecided": 25}


def test_taken_as_exact_numbers_two_claims_contradict_their_table() -> None:
    failed = set()
    for name, table in PAPER.items():
        exact = {
            row: {column: Cell(values=cell.values[:1]) for column, cell in cells.items()}
            for row, cells in printed(table).rows.items()
        }
        for one in judge(table.claims, Result(name=name, rows=exact)):
            assert one.verdict != "undecided"
            if one.verdict == "not held":
                failed.add((name, one.claim.text))
    assert failed == AGAINST_THE_PRINTED_ORDER


def test_the_text_bears_out_its_claims_about_cost_and_prints_too_little_about_theory() -> None:
    cost, theory = (
        [one.verdict for one in judge(ALL[name].claims, printed(ALL[name]))] for name in ("cost", "theory")
    )
    assert cost == ["held"] * 4
    assert theory == ["held", "held", "held", "held", "undecided", "undecided", "undecided"]


def test_the_theory_is_held_against_computed_numbers() -> None:
    computed = {}
    for row in ALL["theory"].rows:
        options = row.columns["value"].options
        (found,) = (
            one
            for one in PARTS[options["part"]]()
            if all(one[key] == value for key, value in options["where"].items())
        )
        value = float(found[options["column"]]) / (
            float(found[options["over"]]) if "over" in options else 1.0
        )
        computed[row.name] = {"value": Cell(values=(value,))}
    judged = judge(ALL["theory"].claims, Result(name="theory", rows=computed))
    failed = [one.claim.text for one in judged if one.verdict == "not held"]
    assert failed == [
        "Eq. 1 as printed is the loss under attack, within 1%.",
        "Proposition 1: the printed bound is no less than the maximum.",
    ]
    assert not [one for one in judged if one.verdict == "undecided"]


def test_printed_numbers_have_the_intervals_that_can_be_known() -> None:
    cell = printed(PAPER["adv_linf_with_std"]).rows["ResNet / SOAR"]["PGD20"]
    assert cell.ours == pytest.approx(56.06) and cell.std == pytest.approx(0.15)
    assert (cell.low, cell.high) == tuple(100 * limit for limit in wilson(5606, 10_000))
    simba = printed(PAPER["bbox"]).rows["ResNet / SOAR"]["SimBA"]
    assert (simba.low, simba.high) == tuple(100 * limit for limit in wilson(686, 1_000))
    assert printed(PAPER["confidence"]).rows["ADV"]["PGD1"].low is None
    assert printed(PAPER["relaxation"]).rows["End of SOAR"]["loss_l2"] == Cell(paper=20.15, values=(20.15,))
    assert printed(PAPER["svhn_whitebox"]).rows["ADV"]["PGD1000"].missing == "the paper prints nothing"


@pytest.mark.parametrize("table", ALL)
def test_claims_are_told_apart_and_say_where_they_come_from(table: str) -> None:
    texts = [claim.text for claim in ALL[table].claims]
    assert texts and len(set(texts)) == len(texts)
    for claim in ALL[table].claims:
        assert claim.text.endswith(".")
        assert claim.source in ("bold print", "its numbers") or claim.source.split()[0] in (
            "section",
            "appendix",
        )


@pytest.mark.parametrize("table", ALL)
def test_nothing_measured_leaves_all_undecided(table: str) -> None:
    for one in judge(ALL[table].claims, Result(name=table, rows={})):
        assert one.verdict == "undecided" and "not measured: " in one.why


def _measured(correct: dict[str, torch.Tensor]) -> Result:
    rows = {}
    for name, flags in correct.items():
        hits, n = int(flags.sum()), len(flags)
        low, high = wilson(hits, n)
        values = (100 * hits / n,)
        rows[name] = {"PGD20": Cell(values=values, low=100 * low, high=100 * high, correct=bits(flags))}
    return Result(name="adv_linf", rows=rows)


def test_our_numbers_are_judged_on_the_same_examples() -> None:
    adv = torch.arange(500) < 110  # 22%
    soar = torch.arange(500) < 125  # 25%, correct wherever ADV is
    verdicts = {
        one.claim.text: one
        for one in judge(ALL["adv_linf"].claims, _measured({"ResNet / ADV": adv, "ResNet / SOAR": soar}))
    }
    held = verdicts["SOAR beats ADV under PGD-20."]
    # b = 15, c = 0: 3 +- 1.96 sqrt(16 - 225/500) / 5
    assert held.verdict == "held"
    assert held.why == "ResNet / SOAR minus ResNet / ADV under PGD20 is 3.00 (1.45 to 4.55)"
    other = torch.arange(500) >= 375  # 25% again, correct where ADV is not: the same counts decide nothing
    judged = judge(ALL["adv_linf"].claims, _measured({"ResNet / ADV": adv, "ResNet / SOAR": other}))
    assert judged[0].verdict == "undecided"
    judged = judge(ALL["adv_linf"].claims, _measured({"ResNet / ADV": soar, "ResNet / SOAR": adv}))
    assert judged[0].verdict == "not held"
    missing = verdicts["FOAR helps: it beats the undefended ResNet under PGD-20."]
    assert missing.verdict == "undecided" and missing.why.startswith(
        "not measured: ResNet / FOAR under PGD20"
    )


def test_a_network_that_masks_is_found_to_mask() -> None:
    def row(clean: float, white: float, transfer: float) -> dict[str, Cell]:
        heads = ("Standard", "PGD20 white-box", "PGD20 black-box (R)")
        pairs = zip(heads, (clean, white, transfer), strict=True)
        return {head: Cell(values=(value,), low=value - 2, high=value + 2) for head, value in pairs}

    def verdict(start: dict[str, Cell]) -> str:
        result = Result(name="soar_complete", rows={"SOAR-zero init": start})
        return judge(PAPER["soar_complete"].claims, result)[0].verdict

    assert verdict(row(80, 78, 5)) == "held"
    assert verdict(row(80, 20, 60)) == "not held"
    assert verdict(row(80, 78, 79)) == "undecided"
