from __future__ import annotations

from pathlib import Path

import pytest
from tools.figures.command import carried_out
from tools.figures.tables import act, charts

from tests.experiments.made import result

REPRODUCED = Path(__file__).parents[3] / "docs" / "results" / "reproduce"


def test_the_charts_of_the_results_page_are_those_of_its_numbers() -> None:
    drawn = {path.name: path.read_text(encoding="utf-8") for path in REPRODUCED.glob("*.svg")}
    assert len(drawn) >= len(list(REPRODUCED.glob("*.json"))) > 10
    assert drawn == charts(REPRODUCED)


def test_every_table_gets_bars_and_a_sweep_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result().save(tmp_path / "adv_linf-small.json")
    rows = {"1": result().rows["ResNet / ADV"]}
    result(name="trades", row_key="beta", rows=rows, validation={"1": 50.0}).save(
        tmp_path / "trades-small.json"
    )
    assert carried_out(act, [str(tmp_path)]) == 0
    names = ["adv_linf-small.svg", "trades-small-curves.svg", "trades-small.svg"]
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == names
    assert sorted(Path(line).name for line in capsys.readouterr().out.splitlines()) == names


@pytest.mark.parametrize(
    "words, message", [([], "expected one folder"), (["."], "no TABLE-SCALE.json files")]
)
def test_a_mistake_is_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert carried_out(act, words) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("soar: ") and message in shown and shown.count("\n") == 1
