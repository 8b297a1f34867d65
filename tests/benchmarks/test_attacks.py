"""The benchmark of attacks runs without any other library, counts honestly and saves what it printed."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar import attacks
from soar.threat import L1, Linf

AUTOATTACK_AND_SUITES = ["APGD-CE", "APGD-T", "FAB-T", "Square", "fast", "auto", "standard"]
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "attacks.py"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("benchmarks_attacks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(SCRIPT.parent))
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(SCRIPT.parent))


def without_peers(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = ("torchattacks", "foolbox", "art", "pyautoattack")
    # Other tests may have imported parts of them already.
    for name in [*peers, *(one for one in sys.modules if one.partition(".")[0] in peers)]:
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises ImportError


def test_quick_run_skips_missing_libraries_and_saves_what_it_printed(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    without_peers(script, monkeypatch)
    script.main(["--quick", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")])
    printed = capsys.readouterr().out
    for library in ("torchattacks", "foolbox", "ART", "pyautoattack"):
        assert f"{library}: skipped, " in printed
    text = (tmp_path / "out" / "attacks-fashion-mnist-sample.txt").read_text()
    assert text.split() == printed.split()
    record = json.loads((tmp_path / "out" / "attacks-fashion-mnist-sample.json").read_text())
    assert record["environment"]["torch"] == torch.__version__
    for kind in ("undefended", "PGD-trained"):
        assert record[kind]["threat"] == "linf 0.1"
        rows = record[kind]["rows"]
        assert [row["attack"] for row in rows] == ["FGSM", "PGD-3", "PGD-3 x2", *AUTOATTACK_AND_SUITES]
        for row in rows:
            assert row["cpu_ratio"] == row["passes_ratio"] == 1
            assert row["runs"][0]["outside"] == 0
            assert 0 <= row["stays_right"] <= record[kind]["right"]
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_trained_weights_come_from_the_cache_the_second_time(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = script.data.load("fashion-mnist-sample", validation=0)
    first = script.trained("undefended", source, script.QUICK, Linf(0.1), tmp_path)
    monkeypatch.delattr(script.objectives, "Standard")  # training again would fail
    second = script.trained("undefended", source, script.QUICK, Linf(0.1), tmp_path)
    assert not second.training
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_samples_are_counted_forwards_and_backwards(script: ModuleType) -> None:
    model = script.Counted(nn.Linear(3, 2))
    x = torch.zeros(5, 3, requires_grad=True)
    with torch.no_grad():
        model(x)
    model(x[:2])
    torch.autograd.grad(model(x).sum(), x)
    model(x[:4]).sum().backward()
    assert (model.forwards, model.backwards) == (5 + 2 + 5 + 4, 5 + 4)


class Threshold(nn.Module):
    """Says 1 for a picture with a mean above one half."""

    def forward(self, x: Tensor) -> Tensor:
        excess = x.flatten(1).mean(dim=1) - 0.5
        return torch.stack([-excess, excess], dim=1)


def task_of(script: ModuleType, levels: list[float]) -> Any:
    images = torch.tensor(levels).reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2).contiguous()
    labels = torch.ones(len(levels), dtype=torch.int64)
    return script.Task(Linf("0.1"), images, labels, 4, 2, 2)


def test_judge_counts_only_points_inside_the_threat_set(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wrong before; fooled inside; untouched; fooled but far outside the ball.
    task = task_of(script, [0.4, 0.55, 0.9, 0.9])
    points = torch.tensor([0.4, 0.46, 0.85, 0.1]).reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    monkeypatch.setitem(script.LIBRARIES, "cheat", lambda model, task: {"guess": lambda: points})
    found = script.measure("cheat", "guess", Threshold(), task)
    assert (found.stays_right, found.outside) == (2, 1)
    assert (found.forwards, found.backwards, found.weight_gradients) == (0, 0, False)


def test_ours_is_measured_by_the_model_and_not_by_its_own_word(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(script, [0.4, 0.55, 0.9])
    found = script.measure("soar", "FGSM", Threshold(), task)
    # Every image costs a prediction and a gradient; the two that are right, a last look too.
    assert (found.forwards, found.backwards) == (pytest.approx(5 / 3), pytest.approx(1))
    assert found.stays_right == 1

    real = attacks.run

    def boasting(*arguments: Any, **options: Any) -> attacks.Outcomes:
        outcomes = real(*arguments, **options)
        outcomes.forward.zero_()
        return outcomes

    monkeypatch.setattr(attacks, "run", boasting)
    with pytest.raises(SystemExit, match=r"FGSM: the engine counts \(0, 3\) passes, the model \(5, 3\)"):
        script.measure("soar", "FGSM", Threshold(), task)


def test_ratios_are_medians_of_ratios_of_the_same_turn(script: ModuleType) -> None:
    def runs(*seconds: float) -> list[object]:
        return [script.Measurement(1, 0, 2.0, 1.0, 3.0, False, second) for second in seconds]

    row = script.summary(("PGD-3", "other"), runs(2, 30, 4), runs(1, 10, 1))
    assert (row["cpu_ratio"], row["passes_ratio"], row["cpu_seconds"]) == (3, 1, 4)
    assert script.summary(("APGD", "other"), runs(1), None)["cpu_ratio"] is None


@pytest.mark.filterwarnings("ignore")  # theirs, not ours
@pytest.mark.parametrize("library", ["torchattacks", "torchattacks, right only", "foolbox", "ART"])
def test_installed_library_finds_what_there_is_to_find(script: ModuleType, library: str) -> None:
    pytest.importorskip({"ART": "art"}.get(library, library.split(",")[0]))
    task = task_of(script, [0.4, 0.55, 0.9])
    model = nn.Sequential(Threshold(), nn.Linear(2, 2, bias=False))
    nn.init.eye_(model[1].weight)  # type: ignore[arg-type]
    for attack in ("FGSM", "PGD-4", "PGD-4 x2"):
        found = script.measure(library, attack, model, task)
        assert (found.stays_right, found.outside) == (1, 0), attack


def test_in_l1_autoattack_is_measured_as_its_authors_run_it(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_peers(script, monkeypatch)
    task = replace(task_of(script, [0.4, 0.55, 0.9]), threat=L1("0.3"), auto_steps=3, queries=2)
    said: list[str] = []
    pairs = script.available(Threshold(), task, said.append)
    assert [attack for attack, _ in pairs] == AUTOATTACK_AND_SUITES
    assert len(said) == 1 and said[0].startswith("pyautoattack: skipped")
    assert script.measure("soar", "APGD-CE", Threshold(), task).stays_right == 1
    parts = sys.modules["peers"].our_parts(task)
    assert (parts["APGD-CE"].restarts, parts["APGD-T"].targets, parts["FAB-T"].targets) == (5, 5, 9)
