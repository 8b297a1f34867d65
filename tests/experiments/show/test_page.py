from __future__ import annotations

import re
from pathlib import Path

import pytest

from soar.experiments.loading import tables
from soar.experiments.result import Cell
from soar.experiments.show.page import build, main
from tests.experiments.made import result


def test_the_page_holds_every_table_and_claim(tmp_path: Path) -> None:
    result().save(tmp_path / "adv_linf-small.json")
    rows = {"zero": {"Standard": Cell(paper=90.0, values=(80.0,))}}
    result(name="foar", rows=rows, seeds=1).save(tmp_path / "foar-small.json")
    text = build(tmp_path).read_text()
    assert text.index("## adv_linf-small") < text.index("## foar-small"), "in the order of importance"
    assert "| ResNet / ADV | 80.64±0.40 → **61.00±1.41** (-19.64) |" in text
    assert "| WideResNet / ADV | 87.14 → - | 45.64 → - |" in text
    what = "Accuracy under attacks"
    assert f"| [adv_linf](#adv_linf-small) | {what} | small | 2 | 2 of 4 |" in text
    assert "**Caution.** Smaller than the paper's." in text
    absent = re.findall(r"Not measured here: (.*); `soar reproduce TABLE` does it\.", text)[0].split(", ")
    assert len(absent) == len(tables()) - 2 and not {"adv_linf", "foar"} & set(absent)
    assert "- missing: WideResNet / ADV: not trained here; `soar reproduce made`" in text
    assert "made by `soar reproduce adv_linf --scale small --seeds 2`" in text
    for name in re.findall(r"\]\(([^#)]+)\)", text):
        assert (tmp_path / name).is_file(), name
    heads = {line.count("|") for line in text.splitlines() if line.startswith("| ResNet / ADV")}
    assert heads == {4}


def test_the_page_is_the_same_when_it_is_made_again(tmp_path: Path) -> None:
    result().save(tmp_path / "adv_linf-small.json")
    first = build(tmp_path).read_bytes()
    assert build(tmp_path).read_bytes() == first


def test_charts_are_shown_where_they_lie_beside_the_numbers(tmp_path: Path) -> None:
    result().save(tmp_path / "adv_linf-small.json")
    result(name="foar").save(tmp_path / "foar-small.json")
    (tmp_path / "adv_linf-small.svg").write_text("<svg/>")
    text = build(tmp_path).read_text()
    assert re.findall(r"^!\[.*", text, re.MULTILINE) == ["![paper and ours, adv_linf](adv_linf-small.svg)"]
    (tmp_path / "foar-small-curves.svg").write_text("<svg/>")
    assert f"![accuracy along {result().row_key}, foar](foar-small-curves.svg)" in build(tmp_path).read_text()


@pytest.mark.parametrize(
    "files, message",
    [
        ({}, "there are no TABLE-SCALE.json files"),
        ({"foar-small.json": "{"}, "damaged or not JSON"),
        ({"foar-small.json": '{"format": 1, "kind": "sweep"}'}, "expected an experiment"),
    ],
)
def test_mistakes_get_one_line(
    tmp_path: Path, files: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "README.md").exists()
    assert main([]) == 2
