from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.figures.command import carried_out

from tests.tools.figures.made import keep, x_of, y_of
from tools.figures import collapse


def write(path: Path, falls: bool) -> None:
    """Write a training of 100 steps with a validation every 50, whose gradients turn at step 40."""
    rows = []
    for step in range(1, 101):
        turned = falls and step > 40
        rows.append({"step": step, "epoch": step / 50, "kind": "train", "alignment": 0.0 if turned else 1.0})
        if step % 50 == 0:
            rows.append({"step": step, "epoch": step / 50, "kind": "validation", "robust": 0.4 / (step / 50)})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_alarm_rings_where_the_guard_would_stop(tmp_path: Path) -> None:
    write(tmp_path / "RS-FGSM.jsonl", falls=True)
    found = collapse.course(tmp_path / "RS-FGSM.jsonl")
    # 0.95^28 is the first power below a quarter.
    assert found.alarm == pytest.approx(68 / 50)
    assert found.robust == [(1.0, 40.0), (2.0, 20.0)]
    epoch, last = found.alignment[-1]
    assert epoch == 2.0 and last == pytest.approx(0.95**60)
    (row,) = collapse.table([found])
    assert (row["best robust"], row["last robust"], row["alarm in epoch"]) == (40.0, 20.0, found.alarm)


def test_courses_are_drawn_with_their_alarms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = keep(monkeypatch, collapse)
    write(tmp_path / "a.jsonl", falls=True)
    write(tmp_path / "b.jsonl", falls=False)
    courses = [collapse.course(tmp_path / f"{name}.jsonl") for name in "ab"]
    assert courses[1].alarm is None
    collapse.draw(courses, Path())
    above, below = figure.axes
    assert x_of(above.lines[1]) == [68 / 50] * 2, "the alarm of the first"
    assert y_of(above.lines[2]) == [40.0, 20.0] and len(above.lines) == len(below.lines) == 3


def test_the_command_draws_into_the_folder_and_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carried_out(collapse.act, [str(tmp_path)]) == 2
    assert "got no .jsonl files" in capsys.readouterr().err
    write(tmp_path / "a.jsonl", falls=True)
    assert carried_out(collapse.act, [str(tmp_path)]) == 0
    assert (tmp_path / "collapse.svg").exists()
    assert "alarm in epoch" in capsys.readouterr().out
