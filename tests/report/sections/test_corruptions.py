from __future__ import annotations

from dataclasses import replace

from soar.report.page import page
from soar.report.tables import latex, markdown
from tests.evaluation.test_corruptions import corruptions
from tests.report.made import made_content
from tests.report.reading import read


def test_each_run_shows_its_corruptions_or_how_to_measure_them() -> None:
    first, second = made_content(2)
    root = read(page([replace(first, corruptions=corruptions()), second]))
    (section,) = (one for one in root.all("section") if one.attributes["id"] == "corruptions")
    cells = [[cell.text for cell in one.all() if cell.name in ("td", "th")] for one in section.all("tr")]
    assert cells == [
        ["corruption", "severity 1", "severity 2", "mean"],
        ["fog", "80.0%", "40.0%", "60.0%"],
        ["snow", "100.0%", "0.0%", "50.0%"],
        ["mean", "90.0%", "20.0%", "55.0%"],
    ]
    assert "5 images, made up." in section.text
    (note,) = section.all(kind="missing")
    assert note.text == f"Not measured: soar evaluate {second.folder} --corruptions."
    assert "#corruptions" in [one.attributes["href"] for one in root.all("nav")[0].all("a")]


def test_nothing_is_shown_where_nothing_was_measured() -> None:
    text = page(made_content(2))
    assert "#corruptions" not in text and 'id="corruptions"' not in text
    assert "corruptions" not in markdown(made_content(2))


def test_tables_have_the_means() -> None:
    first, second = made_content(2)
    runs = [replace(first, corruptions=corruptions()), second]
    assert "| fog | 60.0% |" in markdown(runs).replace("\\", "") and "| mean | 55.0% |" in markdown(runs)
    assert "snow & 50.0\\%" in latex(runs)
