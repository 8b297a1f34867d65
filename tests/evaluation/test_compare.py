from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from soar.errors import UserError
from soar.evaluation import Assessment
from soar.evaluation.compare import Comparison, Difference, compare
from soar.threat import Linf
from tests.evaluation.test_assessment import RESULTS, assessment, flags


def row(found: Comparison, name: str) -> Difference:
    (one,) = (row for row in found.rows if row.name == name)
    return one


def other(robust: str = "11110") -> Assessment:
    """Another model on the same examples, which withstands attack A better."""
    found = assessment()
    better = replace(found.attacks[0], robust=flags(robust))
    return replace(found, model="other", attacks=(better, found.attacks[1]))


def test_differences_are_counted_on_the_same_examples() -> None:
    found = compare(other(), assessment())
    assert (found.first, found.second, found.data, found.threat) == ("other", "net", "things", "linf 8/255")
    assert found.examples == 5 and found.left_out == 0 and found.attacks_left_out == ()
    assert [one.name for one in found.rows] == ["clean", "A", "B", "worst case"]
    a = row(found, "A")
    assert (a.first, a.second, a.only_first, a.only_second) == (0.8, 0.4, 2, 0)
    # (b - c)/n +- z sqrt(b + c + 1 - (b - c)^2/n)/n with b = 2, c = 0, n = 5
    half = 1.959963984540054 * (3 - 4 / 5) ** 0.5 / 5
    assert a.difference == pytest.approx(0.4)
    assert a.low == pytest.approx(0.4 - half) and a.high == pytest.approx(0.4 + half)
    worst = row(found, "worst case")
    assert (worst.first, worst.second, worst.only_first) == (0.4, 0.2, 1)


def test_the_other_way_round_only_the_sign_changes() -> None:
    one, two = row(compare(other(), assessment()), "A"), row(compare(assessment(), other()), "A")
    assert (two.difference, two.low, two.high) == (-one.difference, -one.high, -one.low)
    assert (two.only_first, two.only_second) == (one.only_second, one.only_first)


def test_an_assessment_does_not_differ_from_itself_in_any_order() -> None:
    turned = assessment().select(torch.tensor([3, 1, 4, 0, 2]))
    for one in compare(assessment(), turned).rows:
        assert one.difference == 0 and one.only_first == one.only_second == 0
        assert one.low < 0 < one.high


def test_only_examples_in_common_count() -> None:
    found = compare(other().select(torch.arange(1, 5)), assessment().select(torch.arange(3)))
    assert found.examples == 2 and found.left_out == 3
    assert (row(found, "A").first, row(found, "A").second) == (1.0, 0.5)


def test_only_attacks_that_were_run_in_the_same_way_count() -> None:
    plain = assessment()
    longer = replace(other().attacks[0], parameters={"steps": 40})
    found = compare(replace(other(), attacks=(longer, other().attacks[1])), plain)
    assert found.attacks_left_out == ("A",) and [one.name for one in found.rows] == [
        "clean",
        "B",
        "worst case",
    ]
    assert row(found, "worst case").second == plain.accuracy("B")
    found = compare(replace(other(), attacks=()), plain)
    assert found.attacks_left_out == ("A", "B") and [one.name for one in found.rows] == ["clean"]


def test_what_survivors_were_left_with_depends_on_the_attacks_before() -> None:
    found = assessment()
    after = replace(found.attacks[1], survivors_only=True)
    both, alone = replace(found, attacks=(found.attacks[0], after)), replace(found, attacks=(after,))
    assert compare(both, both).attacks_left_out == ()
    assert compare(both, alone).attacks_left_out == ("A", "B")


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match="differ in data: got things and toys"):
        compare(assessment(), replace(assessment(), data="toys"))
    with pytest.raises(UserError, match=r"differ in threat: got linf 8/255 and linf 0\.1"):
        compare(assessment(), replace(assessment(), threat=Linf(0.1)))
    with pytest.raises(UserError, match="no example in common"):
        compare(assessment(), assessment(first=5))
    with pytest.raises(UserError, match="example 3 has label 0 in one and 2 in the other"):
        compare(assessment(), replace(assessment(), labels=torch.tensor([0, 1, 2, 2, 0])))


def test_committed_files_compare() -> None:
    folder = RESULTS / "cifar10-small"
    hardened, standard = (Assessment.load(folder / f"{name}.json") for name in ("adversarial", "standard"))
    found = compare(hardened, standard)
    assert found.examples == 1000 and found.attacks_left_out == ()
    assert row(found, "worst case").low > 0 > row(found, "clean").high
