"""CSV files are read back as they were written, whatever the names hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from soar.report.csv_link import Value, csv_link, csv_text
from soar.report.sections import attacks, classes
from soar.text import interval, percent
from tests.report.made import HOSTILE, hostile, made_content
from tests.report.reading import read, saved

texts = st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]))


@given(st.lists(st.lists(texts, min_size=2, max_size=2)))
def test_texts_are_read_back(rows: list[list[str]]) -> None:
    assert list(csv.reader(io.StringIO(csv_text(rows), newline=""), strict=True)) == rows


@given(st.floats(min_value=-1e9, max_value=1e9))
def test_numbers_keep_six_digits(number: float) -> None:
    (((read_back,),)) = csv.reader([csv_text([(number,)]).strip()])
    assert abs(float(read_back) - number) <= 5e-6 * abs(number)


def test_the_file_is_in_the_page_itself() -> None:
    rows: list[Sequence[Value]] = [("run", "accuracy"), (HOSTILE, 0.5), ('b,\n"c"', None)]
    (link,) = read(csv_link("by-attack", rows)).all()
    assert link.attributes["download"] == "by-attack.csv"
    assert saved(link) == [["run", "accuracy"], [HOSTILE, "0.5"], ['b,\n"c"', ""]]


def test_the_table_of_attacks_and_its_file_hold_the_same() -> None:
    runs = made_content(2)
    root = read(attacks.draw(runs))
    names, *rows = saved(root.all("a", "csv")[0])
    assert names[:4] == ["run", "verdict", "attack", "images"]
    given = {(row[0], row[2]): row for row in rows}
    shown = [row for part in ("tbody", "tfoot") for row in root.all(part)[0].all("tr")]
    assert len(given) == len(rows) == 2 * len(shown)
    for line in shown:
        label = line.all("th")[0].text
        cells = [one.text.strip() for one in line.all("td")]
        for place, run in enumerate(runs):
            _, verdict, _, count, accuracy, low, high, forward, backward, seconds = given[run.name, label]
            assert (verdict, count) == (run.verdict.text, "1000")
            ends = interval(float(low), float(high))
            assert cells[3 * place] == f"{percent(float(accuracy))} {ends}"
            assert cells[3 * place + 1] == f"{float(forward):.1f} + {float(backward):.1f}"
            assert cells[3 * place + 2] == (f"{float(seconds):.1f}" if seconds else "-")


def test_the_tables_of_classes_and_costs_and_their_files_hold_the_same() -> None:
    (run,) = made_content(1)
    root = read(classes.draw([run]))
    lines = [[one.text for one in line.all("td")] for line in root.all("tbody")[0].all("tr")]
    _, *rows = saved(root.all("a", "csv")[0])
    shares = [(images, *(percent(int(one) / int(images)) for one in rest)) for _, _, images, *rest, _ in rows]
    assert [tuple(line[:3]) for line in lines] == shares
    costs = read(attacks.draw_cost([run]))
    names, numbers = saved(costs.all("a", "csv")[0])
    assert names == [one.text for one in costs.all("thead")[0].all("th")]
    cells = [one.text.replace(",", "") for one in costs.all("tbody")[0].all("td")]
    assert all(abs(float(one) - float(other)) <= 0.5 for one, other in zip(cells, numbers[1:], strict=True))


def test_hostile_names_stay_in_their_cells() -> None:
    root = read(attacks.draw([hostile(run) for run in made_content(2)]))
    rows = saved(root.all("a", "csv")[0])
    assert {len(row) for row in rows} == {10} and rows[1][0] == HOSTILE
