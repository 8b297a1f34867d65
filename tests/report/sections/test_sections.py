"""Tables, charts, evidence and provenance: each number is where it belongs."""

from __future__ import annotations

from dataclasses import replace

from soar.report.sections import attacks, classes, diagnosis, provenance, radius, surfaces, training
from tests.report.made import made_content
from tests.report.reading import Element, read


def cells(row: Element) -> list[str]:
    return [one.text.strip() for one in row.all() if one.name in ("th", "td")]


def test_attacks_have_runs_as_columns_and_the_worst_case_last() -> None:
    table = read(attacks.draw(made_content(2))).all("table")[0]
    rows = table.all("tbody")[0].all("tr")
    assert [cells(row)[0] for row in rows] == ["clean", "PGD-20", "APGD-CE", "APGD-DLR", "Square-500"]
    assert cells(rows[1])[1:] == [
        "67.4% 64.4 to 70.2", "21.0 + 20.0", "9.7", "56.2% 53.1 to 59.2", "21.0 + 20.0", "10.7",
    ]  # fmt: skip
    assert rows[1].all("td")[0].attributes["data-sort"] == "0.674"
    (worst,) = table.all("tfoot")[0].all("tr")
    assert cells(worst)[:4] == ["worst case", "66.1% 63.1 to 69.0", "685.0 + 360.0", "97.0"]
    assert worst.all("del")[0].text == "18.7%"


def test_an_attack_of_one_run_only_is_not_run_for_the_others() -> None:
    first, second = made_content(2)
    fewer = replace(first, assessment=replace(first.assessment, attacks=first.assessment.attacks[:2]))
    assert attacks.attack_labels([fewer, second]) == ["PGD-20", "APGD-CE", "APGD-DLR", "Square-500"]
    rows = read(attacks.draw([fewer, second])).all("tbody")[0].all("tr")
    assert cells(rows[3])[:4] == ["APGD-DLR", "not run", "-", "-"]


def test_attacks_on_survivors_are_starred() -> None:
    (run,) = made_content(1)
    last = replace(run.assessment.attacks[-1], survivors_only=True)
    some = replace(run, assessment=replace(run.assessment, attacks=(*run.assessment.attacks[:-1], last)))
    root = read(attacks.draw([some]))
    assert "Square-500 *" in root.text and "on what earlier attacks have left" in root.text


def test_costs_are_rates() -> None:
    (row,) = read(attacks.draw_cost(made_content(1))).all("tbody")[0].all("tr")
    # 1000 images in 97 seconds, 685 + 360 passes each
    assert cells(row) == ["pgd-10", "171.7", "246.0", "1000", "685.0", "360.0", "97.0", "10.3", "10,773"]


def test_charts_compare_runs_and_name_the_masked() -> None:
    drawn = read(radius.draw(made_content(2)))
    assert len(drawn.all("figure")) == 3 and "soar-zero-start (masked)" in drawn.text
    assert len(read(radius.draw(made_content(1))).all("figure")) == 1


def test_training_has_a_chart_for_every_quantity() -> None:
    one, two = (read(training.draw(made_content(runs))) for runs in (1, 2))
    assert [len(root.all("figure")) for root in (one, two)] == [5 + 2, 5 + 2]  # two of them folded up
    assert "No guard fired" in one.text
    assert "soar-zero-start: epoch 9" in two.text


def test_a_run_without_a_quantity_keeps_its_color() -> None:
    first, second = made_content(2)
    lean = replace(first, training=tuple(one for one in first.training if one.label != "penalty"))
    drawn = read(training.draw([lean, second])).all("figure")[1]
    assert drawn.text.index("pgd-10") < drawn.text.index("soar-zero-start")


def test_evidence_is_gravest_first_with_rule_numbers_and_advice() -> None:
    root = read(diagnosis.draw(made_content(2)[1:]))
    items = root.all("details", "evidence")
    assert [one.classes[1] for one in items] == ["masked", "suspicious", "sound"]
    assert ["open" in one.attributes for one in items] == [True, True, False]
    for part in (
        "56.2%",
        "at least 10 points stronger",
        "cross entropy0.562",
        "median norm3.1e-07",
        "note-",
    ):
        assert part in root.text
    assert root.all(kind="advice")[0].all("li")[0].text == (
        "run all of AutoAttack: soar evaluate runs/soar-zero-start --attacks standard"
    )


def test_other_runs_of_the_page_are_offered_as_sources() -> None:
    first, second = made_content(2)
    (last,) = [line.text for line in read(diagnosis.draw([first, second])).all(kind="advice")[0].all("li")][
        1:
    ]
    assert last.endswith(f": soar diagnose {second.folder} --source {first.folder}")
    alone = read(diagnosis.draw([second])).text
    assert "--source " not in alone and "(flag --source)" in alone


def test_a_first_look_is_not_taken_for_a_diagnosis() -> None:
    (run,) = made_content(1)
    assert run.diagnosis is not None
    root = read(diagnosis.draw([replace(run, diagnosis=replace(run.diagnosis, is_complete=False))]))
    assert "sound, at first look" in root.text and f"soar diagnose {run.folder}" in root.text


def test_the_weakest_class_comes_first_with_what_it_becomes() -> None:
    (run,) = made_content(1)
    rows = read(classes.draw([run])).all("tbody")[0].all("tr")
    shares = [float(row.all("td")[2].attributes["data-sort"] or "") for row in rows]
    assert shares == sorted(shares) and len(rows) == 10
    first = min(run.class_outcomes, key=lambda one: one.robust)
    into = ", ".join(f"{run.classes[label]} {count}" for label, count in first.into)
    assert cells(rows[0])[0] == run.classes[first.label] and cells(rows[0])[-1] == into
    widths = [one.attributes["style"] for one in rows[0].all(kind="stack")[0].all("span")]
    assert widths[0] == f"width:{first.robust:.1f}%"  # of 100 examples


def test_surfaces_stand_side_by_side_with_a_lesson() -> None:
    root = read(surfaces.draw(made_content(2)))
    assert len(root.all(kind="slices")) == 3 and len(root.all("figure", "pair")) == 6
    assert len(root.all(kind="plane")) == 12
    assert "Three signs of masking" in root.all(kind="lead")[0].text


def test_everything_to_repeat_it_is_there() -> None:
    (run,) = made_content(1)
    root = read(provenance.draw([run]))
    commands = root.all(kind="copyable")[0].all("code")[0].text
    assert commands.splitlines()[1] == "soar evaluate runs/pgd-10 --attacks standard"
    for part in ("steps 20, restarts 1, loss ce", "2.13.0+cpu", "linf 0.1", "[objective]", "1000 images"):
        assert part in root.text
