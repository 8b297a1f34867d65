from __future__ import annotations

from pathlib import Path

import pytest

from soar.bench.step import Setting, measure
from soar.cli.main import main

TINY = Setting(model="cnn6", options=(("width", 4), ("hidden", 8)), batch_size=4, repeats=1)


@pytest.mark.parametrize(
    "objective, passes",
    [
        ("standard", (1, 1)),
        ("adversarial steps=10", (11, 11)),
        ("foar start=zero", (1, 2)),
        ("foar start=pgd-1", (2, 3)),
        # A start of one step, two gradients, and a last pass that comes back through both points.
        ("soar", (3, 5)),
        ("soar samples=2", (4, 7)),
    ],
)
def test_passes_are_the_arithmetic_of_the_methods(objective: str, passes: tuple[int, int]) -> None:
    (cost,) = measure([objective], TINY, memory=False)
    assert (cost.forwards, cost.backwards) == passes
    assert cost.seconds > 0 and cost.mebibytes is None


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while")
def test_memory_grows_with_the_batch() -> None:
    small, large = (
        measure(["standard"], Setting(model="cnn6", batch_size=size, repeats=1))[0].mebibytes
        for size in (8, 512)
    )
    assert small is not None and large is not None
    assert large > 20 + small


def test_the_command_prints_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "step", "--model", "cnn6", "--options", "width=4", "hidden=8", "--batch-size", "2"]
    assert main([*words, "--repeats", "1", "--no-memory", "--objectives", "soar", "soar product=exact"]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert next(line for line in lines if line[:1] == ["standard"])[2] == "1.00"
    assert any(line[:2] == ["adversarial", "steps=10"] and line[4] == "1.00" for line in lines)
    assert "soar product=exact" in shown


@pytest.mark.parametrize(
    "words, message",
    [
        (["--repeats", "0"], "--repeats: got 0, expected at least 1"),
        (["--options", "width"], "--options: got 'width', expected NAME=VALUE"),
        (["--objectives", "soar product"], "--objectives: got 'product', expected NAME=VALUE"),
        (["--objectives", "saor"], "did you mean 'soar'"),
        (["--model", "resnet100"], "did you mean 'resnet10'"),
    ],
)
def test_mistakes_are_told(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "step", *words]) == 2
    assert message in capsys.readouterr().err
