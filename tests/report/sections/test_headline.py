"""The headline: the numbers, the verdict, and no way around a masked one."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from soar.evaluation import Note
from soar.evaluation.diagnosis import SEVERITY, Check
from soar.report.content import RunContent
from soar.report.markup import SIGNS
from soar.report.page import page
from soar.report.sections import attacks, diagnosis, headline, radius
from tests.report.made import certified, made_content
from tests.report.reading import Element, read


def cards(runs: int) -> list[Element]:
    return read(headline.draw(made_content(runs))).all("article")


def test_a_card_holds_the_numbers_with_intervals_and_the_verdict() -> None:
    (card,) = cards(1)
    for part in ("66.1%", "63.1 to 69.0%", "83.6%", "81.2 to 85.8%", "✓ sound"):
        assert part in card.text
    assert "None of 3 checks speaks against it." in card.text
    assert "best" not in card.text and "trusted" not in card.text


def test_a_masked_number_cannot_be_overlooked() -> None:
    runs = made_content(2)
    root = read(headline.draw(runs))
    (alarm,) = root.all(kind="alarm")
    assert alarm.attributes["role"] == "alert"
    assert "soar-zero-start is masked: its 18.7% is not to be trusted" in alarm.text
    assert "cross-entropy attacks 56.2%" in alarm.text
    card = root.all("article")[1]
    assert card.all("del", "big")[0].text == "18.7%"
    assert card.all(kind="distrust")[0].text == "✗ Not to be trusted"
    for shown in (attacks.draw(runs), radius.draw(runs)):
        (warning,) = read(shown).all(kind="alarm")
        assert "soar-zero-start: Not to be trusted" in warning.text
    assert not read(headline.draw(runs[:1])).all(kind="alarm")


def test_the_best_is_marked_among_those_to_trust() -> None:
    told = [card.all(kind="standing") for card in cards(5)]
    assert [one[0].text if one else "" for one in told] == ["tied for best", "", "tied for best", "", ""]
    pgd, masked, _, suspicious, _ = made_content(5)
    shown = read(headline.draw([pgd, masked, suspicious]))
    assert [one.text for one in shown.all(kind="standing")] == ["★ best"]
    assert "Not to be quoted yet" in cards(4)[3].text


def inconclusive(run: RunContent) -> RunContent:
    """The same run, none of whose checks but the last could be made."""
    assert run.diagnosis is not None
    *first, last = run.diagnosis.checks
    unmade = [
        Check(one.check, one.title, one.rule).skipped("no clean image is correctly classified")
        for one in first
    ]
    return replace(run, diagnosis=replace(run.diagnosis, checks=(*unmade, last)))


def test_a_number_that_could_not_be_checked_is_marked_and_never_the_best() -> None:
    first, _, best = made_content(3)
    runs = [first, inconclusive(best)]
    card = read(headline.draw(runs)).all("article")[1]
    assert not card.all(kind="standing")
    assert "inconclusive" in card.all(kind="distrust")[0].classes
    assert card.all(kind="distrust")[0].text == "~ Not confirmed"
    assert "~ inconclusive" in card.text
    assert "2 of 3 checks could not be made, so it cannot be called sound." in card.text
    assert read(headline.draw([first, best])).all("article")[1].all(kind="standing")
    assert "~ inconclusive" in read(attacks.draw(runs)).text and "inconclusive" in str(page(runs))
    told = read(diagnosis.draw(runs))
    assert "0 of 3 checks speak against the measurement, 2 could not be made, on " in told.text
    assert [one.classes[1] for one in told.all("details", "evidence")[3:]] == [
        "inconclusive",
        "inconclusive",
        "sound",
    ]


def test_every_verdict_has_its_colors() -> None:
    style = resources.files("soar.report").joinpath("assets/page.css").read_text()
    for verdict in SEVERITY:
        assert f".verdict.{verdict}" in style and f".evidence.{verdict}" in style and verdict in SIGNS


def test_the_color_of_the_number_is_that_of_robustness_whatever_the_verdict() -> None:
    runs = made_content(5)
    sound = [replace(run, diagnosis=runs[0].diagnosis) for run in runs]
    for run, card in zip(sound, read(headline.draw(sound)).all("article"), strict=True):
        assert card.classes == ["card", "toned"]
        assert card.attributes["style"] == f"--share:{run.assessment.worst_case:.3f}"
        (judged,) = card.all(kind="judgment")
        assert judged.text == "Verdict on the measurement ✓ sound"
    assert [card.classes[1] for card in cards(5)] == ["toned", "masked", "toned", "toned", "toned"]


def test_a_legend_names_every_part_of_the_lines_that_is_drawn() -> None:
    one, other = made_content(2)
    for runs in ([one, other], [certified(one)], [certified(one), other]):
        root = read(headline.draw(runs))
        (keys,) = root.all("ul", "keys")
        named = {part.classes[0] for part in keys.all("span") if part.classes != ["ruler"]}
        drawn = {part.classes[0] for ruler in root.all("div", "ruler") for part in ruler.all("span")}
        assert named == drawn | {"scale"}
    for words in ("robust accuracy", "95% interval", "clean accuracy", "certified", "neither certified"):
        assert words in keys.text


def test_differences_are_to_the_first_and_to_the_best() -> None:
    table = read(headline.draw(made_content(3))).all("table")[0]
    rows = [
        [cell.text.strip() for cell in row.all()[:20] if cell.name in ("th", "td")] for row in table.all("tr")
    ]
    assert rows[0] == [
        "run", "clean, against pgd-10", "robust, against pgd-10", "robust, against trades (highest)",
    ]  # fmt: skip
    assert rows[1][1:3] == ["-", "-"] and rows[1][3].startswith("\N{MINUS SIGN}1.1 (\N{MINUS SIGN}")
    assert rows[2][2].startswith("\N{MINUS SIGN}47.4 (") and rows[2][2].endswith("not to be trusted")
    assert rows[3][2].endswith("tied") and rows[3][3] == "-"


def test_different_data_are_not_compared() -> None:
    one, _, other = made_content(3)
    elsewhere = replace(other, assessment=replace(other.assessment, data="cifar10"))
    root = read(headline.draw([one, elsewhere]))
    assert "no run is called best" in root.all(kind="missing")[0].text
    assert root.text.count("not comparable") == 2
    assert not root.all(kind="standing")


def test_what_is_odd_about_the_model_is_said() -> None:
    (run,) = made_content(1)
    odd = replace(run, assessment=replace(run.assessment, notes=(Note("random", "model: randomized"),)))
    assert "model: randomized" in read(headline.draw([odd])).all(kind="note")[0].text


def test_what_is_certified_stands_beside_what_attacks_leave() -> None:
    run = certified(made_content(1)[0])
    both = run.bracket
    assert both is not None and 0 < both.certified < both.attacked < both.clean
    (card,) = read(headline.draw([run])).all("article")
    told = f"{both.certified:.1%} certified (crown) to {both.attacked:.1%} under attack, 200 images"
    assert told in card.text
    (ruler,) = card.all("div", "ruler")
    places = {one.classes[0]: one.attributes["style"] for one in ruler.all("span")}
    low, high = 100 * both.certified, 100 * both.attacked
    assert places["proved"] == f"left:0.0%;width:{low:.1f}%"
    assert places["open"] == f"left:{low:.1f}%;width:{high - low:.1f}%"
    assert places["dot"] == f"left:{high:.1f}%" and "range" not in places
    assert not read(headline.draw(made_content(1))).all(kind="open")
