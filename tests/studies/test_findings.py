from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from soar.studies import Finding, Findings

ROWS = (
    Finding(
        arm="standard",
        status="finished",
        seconds=61.0,
        accuracy={"clean": 0.9, "PGD-20": 0.05, "worst case": 0.04},
        step_cost=0.11,
    ),
    Finding(
        arm="SOAR",
        status="finished",
        seconds=3700.0,
        accuracy={"clean": 0.8, "PGD-20": 0.6, "worst case": 0.55},
        transfer=0.75,
        step_cost=0.612,
    ),
    Finding(arm="hopeless", status="failed", reason="the loss exploded"),
)
FOUND = Findings(
    study="mine", data="things (test)", threat="linf 0.1", examples=400, transfer_from="standard", rows=ROWS
)


def test_the_table_has_a_row_for_every_arm_and_marks_the_most_robust() -> None:
    written = io.StringIO()
    Console(width=140, file=written, force_terminal=True, no_color=True).print(FOUND.table())
    lines = written.getvalue().splitlines()
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "").split("  ") for line in lines]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in plain]
    headings = ["training", "clean", "PGD-20", "worst case", "transfer", "step / PGD-10", "trained in"]
    assert headings in cells
    assert ["standard", "90.0", "5.0", "4.0", "0.11", "1:01 min"] in cells
    assert ["SOAR", "80.0", "60.0", "55.0", "75.0", "0.61", "1:02 h"] in cells
    assert ["hopeless", "failed"] in cells
    text = "\n".join(lines)
    assert "one standard error at most 2.5" in text and "hopeless: failed, the loss exploded" in text
    marked = [line for line in lines if "\x1b[1m" in line and "SOAR" in line]
    assert marked and not [line for line in lines if "\x1b[1m" in line and "standard" in line]


def test_a_study_without_extras_has_no_empty_columns() -> None:
    written = io.StringIO()
    row = Finding(arm="only", status="finished", seconds=1.0, accuracy={"clean": 0.5, "worst case": 0.5})
    found = Findings(study="s", data="d", threat="linf 0.1", examples=4, rows=(row,))
    Console(width=140, file=written).print(found.table())
    assert "transfer" not in written.getvalue() and "PGD-10" not in written.getvalue()


def test_findings_are_saved_with_every_number(tmp_path: Path) -> None:
    FOUND.save(tmp_path / "study.json")
    stored = json.loads((tmp_path / "study.json").read_text())
    assert stored["rows"][1]["accuracy"]["worst case"] == 0.55
    assert stored["rows"][2]["reason"] == "the loss exploded"
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
