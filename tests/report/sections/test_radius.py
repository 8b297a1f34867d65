from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from soar.attacks import FGSM, PGD, Outcomes
from soar.evaluation.certify import certify
from soar.evaluation.interval import wilson
from soar.evaluation.target import Target
from soar.report.sections import radius
from soar.report.sections.radius import accuracy_curves, bracket_curves, breaking_radii, threats
from soar.threat import L2, Linf, Threat
from tests.report.linear import linear_target
from tests.report.made import certified, made_content
from tests.report.reading import read


@pytest.mark.parametrize("threat, dual", [(Linf("0.05"), 1), (L2("0.12"), 2)])
def test_a_linear_model_breaks_exactly_where_its_margin_ends(threat: Threat, dual: int) -> None:
    target = linear_target(threat, count=40)
    found = [breaking_radii(target, attack) for attack in (FGSM(), PGD(steps=20, loss="margin"))]
    far = target.model.distances(target.x[:], target.y, dual=dual)  # type: ignore[operator]
    radii = torch.tensor([one.radius for one in threats(threat)])
    expected = torch.where(target.correct, 1 + (radii[None] < far[:, None]).sum(dim=1), 0)
    assert found == [tuple(expected.tolist())] * 2
    assert len(set(expected.tolist())) >= 5, "the examples tell radii apart"
    assert expected.max() == 9


def test_curves_count_what_is_robust_within_each_radius() -> None:
    # Radii beyond 1 do not exist for linf, so four are left of eight.
    a, b = accuracy_curves({"A": (0, 1, 5, 5), "B": (0, 2, 2, 5)}, Linf("1"))
    assert [a.label, b.label] == ["A", "B"]
    assert a.x == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert a.y[:3] == (0.75, 0.5, 0.5) and b.y[:3] == (0.75, 0.75, 0.25)
    assert (a.low[1], a.high[1]) == wilson(2, 4)


def test_radii_hold_eps_itself_and_end_where_every_image_is_allowed() -> None:
    assert Linf("8/255") in threats(Linf("8/255"))
    assert [str(one) for one in threats(L2("2"))][::7] == ["l2 0.5", "l2 4"]
    assert [str(one) for one in threats(Linf("0.8"))][-2:] == ["linf 0.8", "linf 1"]


def test_what_broke_is_not_attacked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    target = linear_target()
    sizes: list[int] = []
    attack = target.attack

    def count(_: Target, recipe: FGSM, *, threat: Threat, rows: torch.Tensor) -> Outcomes:
        sizes.append(len(rows))
        return attack(recipe, threat=threat, rows=rows)

    monkeypatch.setattr(Target, "attack", count)
    found = breaking_radii(target, FGSM())
    held = [sum(at > position for at in found) for position in range(8)]
    assert sizes == held


def test_a_model_that_is_always_wrong_has_curves_at_zero() -> None:
    target = linear_target(count=4, wrong=4)
    assert {
        y
        for curve in accuracy_curves({"FGSM": breaking_radii(target, FGSM())}, target.threat)
        for y in curve.y
    } == {0.0}


def test_both_curves_of_a_linear_model_meet_at_the_radii_in_common() -> None:
    target = linear_target(count=40)
    radii = [Linf("0.0125"), Linf("0.05"), Linf("0.2")]
    certificates = certify(target.model, target.data, radii)
    breaks = breaking_radii(target, PGD(steps=20, loss="margin"))
    (attacked, proved), count = bracket_curves(breaks, target, certificates)
    assert count == 40 and (attacked.label, proved.label) == ("attacked", "certified (crown)")
    assert proved.x == (0.0, 0.0125, 0.05, 0.2) and proved.y[0] == attacked.y[0] > proved.y[2]
    for x, share in zip(proved.x[:3], proved.y[:3], strict=True):
        assert share == attacked.y[attacked.x.index(x)]
    half = certify(target.model, target.subset(slice(5, 20)).data, radii[:1])
    (part, _), count = bracket_curves(breaks, target, half)
    assert count == 15 and part.y[0] == sum(at > 0 for at in breaks[5:20]) / 15, "only images that both know"
    assert bracket_curves(breaks, target, []) == ((), 0)


def test_the_unknown_is_shaded_and_explained() -> None:
    one, other = made_content(2)
    shown = read(radius.draw([certified(one), other]))
    titles = [title.text for title in shown.all("title")]
    assert sum("certified and attacked" in title for title in titles) == 1
    assert "Certified images withstand every attack" in shown.text
    assert "Certified" not in read(radius.draw([one, other])).text


def test_every_chart_says_on_how_many_images_it_is() -> None:
    one, other = made_content(2)
    first = replace(certified(one), bracket_examples=80)
    root = read(radius.draw([first, replace(other, curve_examples=100)]))
    shown = {chart.all("text")[0].text: chart.all("text")[1].text for chart in root.all("svg")}
    assert shown == {
        "Worst case of all attacks": "accuracy on 100 or 200 images",
        "pgd-10: certified and attacked": "accuracy on 80 images",
        "pgd-10": "accuracy on 200 images",
        "soar-zero-start: masked, not to be trusted": "accuracy on 100 images",
    }
    assert "Curves are on 100 or 200 images" in root.text
    assert (
        "The results above are on 1000 images; to draw curves on as many: soar report --examples 1000."
        in root.text
    )
    assert "pgd-10 was certified on 80 of its 200 images." in root.text


def test_curves_on_the_images_of_the_results_need_no_more_words() -> None:
    (run,) = made_content(1, examples=200)
    told = read(radius.draw([certified(run)])).text
    assert "Curves are on 200 images" in told
    assert "results above" not in told and "was certified on" not in told


def test_charts_and_curves_are_hidden_with_their_run() -> None:
    one, other = made_content(2)
    root = read(radius.draw([one, certified(other)]))
    assert [one.attributes.get("data-run") for one in root.all("figure")] == [None, "1", "0", "1"]
    together = root.all("svg")[0]
    groups = [one for one in together.all("g") if "data-run" in one.attributes]
    assert [one.attributes["data-run"] for one in groups] == ["0", "1", "0", "1"]  # curves, then the legend
    assert [one.all("text")[0].text for one in together.all("g", "entry")] == [
        "pgd-10",
        "soar-zero-start (masked)",
    ]
    assert not any(one.all("g", "entry") for one in root.all("svg")[1:])
