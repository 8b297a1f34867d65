from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from soar.cli.main import main
from soar.cost import workload
from soar.cost.workload import Workload

FAST = ["--repeats", "1", "--no-memory", "--quiet"]
OPTIONS = (("width", 4), ("hidden", 8))


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure a tiny network in place of the four."""
    made = Workload(name="tiny", model="cnn6", options=OPTIONS, batch_size=16)
    monkeypatch.setattr(workload, "WORKLOADS", {"tiny": made})


@pytest.mark.usefixtures("_tiny")
def test_the_command_prints_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "step", *FAST, "--objectives", "soar", "soar:hvp=exact"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert next(line for line in lines if line[:1] == ["standard"])[2] == "1.00"
    assert any(line[:1] == ["adversarial:steps=10"] and line[3] == "1.000" for line in lines)
    assert "soar:hvp=exact" in shown
    assert "tiny, batch of 16" in shown


def test_presets_are_measured_one_after_the_other_and_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny = {
        name: Workload(name=name, model="cnn6", options=(*OPTIONS, ("norm", norm)), batch_size=4)
        for name, norm in (("plain", "none"), ("normed", "batch"))
    }
    monkeypatch.setattr(workload, "WORKLOADS", tiny)
    output = tmp_path / "step.json"
    words = ["bench", "step", "--repeats", "2", "--no-memory", "--objectives", "foar"]
    assert main([*words, "--output", str(output)]) == 0
    shown = capsys.readouterr()
    assert shown.out.index("plain, batch of 4") < shown.out.index("normed, batch of 4")
    assert "plain  9/9 steps" in shown.err
    assert "warning" not in shown.err
    record = json.loads(output.read_text())
    assert record["environment"]["torch"] == torch.__version__
    assert [network["network"] for network in record["networks"]] == ["plain", "normed"]
    standard, reference, foar = record["networks"][1]["costs"]
    assert [row["objective"] for row in (standard, reference, foar)] == [
        *("standard", "adversarial:steps=10", "foar")
    ]
    assert len(foar["times"]) == 2
    assert standard["time_to_standard"] == reference["time_to_pgd_10"] == 1
    assert foar["mebibytes"] is None


@pytest.mark.usefixtures("_tiny")
def test_memory_stands_beside_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "step", "--repeats", "1", "--quiet", "--objectives", "standard"]
    assert main(words) == 0
    row = next(line.split() for line in capsys.readouterr().out.splitlines() if "standard" in line)
    if Path("/proc/self/clear_refs").exists():
        assert float(row[-2]) > 0 and row[-1] == "1.00"


def test_an_earlier_result_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "step.json"
    output.write_text("precious")
    assert main(["bench", "step", *FAST, "--output", str(output)]) == 2
    assert f"--output: {output} exists already; choose another name" in capsys.readouterr().err
    assert output.read_text() == "precious"


@pytest.mark.usefixtures("_tiny")
def test_a_link_to_a_file_that_is_to_be_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "step.json")
    assert main(["bench", "step", *FAST, "--objectives", "standard", "--output", str(link)]) == 0
    assert link.is_symlink() and json.loads((tmp_path / "step.json").read_text())["repeats"] == 1


@pytest.mark.parametrize(
    "words, message",
    [
        (["--repeats", "0"], "--repeats: got 0, expected at least 1"),
        (
            ["--networks", "resnet10-16"],
            "unknown network 'resnet10-16' (--networks); did you mean 'resnet10-w16'",
        ),
        (
            ["--objectives", "soar:product"],
            "objectives: got 'product' in 'soar:product', expected option=",
        ),
        (
            ["--objectives", "soar hvp=exact num_directions=2"],
            "soar: objectives: got 'soar hvp=exact num_directions=2', expected"
            " 'soar:hvp=exact,num_directions=2' (flag --objectives)",
        ),
        (["--networks", "resnet10-w16", "--objectives", "saor"], "did you mean 'soar'"),
    ],
)
def test_mistakes_are_told(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "step", "--quiet", *words]) == 2
    assert message in capsys.readouterr().err
