"""The comparison of suites trains its networks once, keeps what it evaluated and prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("networks", "suites"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import networks
    import suites

    few = {
        name: replace(networks.NETWORKS[name], data="fashion-mnist-sample", images=256, test_images=12)
        for name in ("fashion-mixer-pgd", "fashion-cnn-bn-pgd")
    }
    few["attention"] = replace(few["fashion-mixer-pgd"], model="attention", warm_up=0)
    monkeypatch.setattr(networks, "NETWORKS", few)
    monkeypatch.setattr(networks, "MASKED", ["attention+rounded"])
    monkeypatch.setattr(networks, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(suites, "HERE", tmp_path)
    (tmp_path / "results").mkdir()
    yield suites
    for name in ("networks", "suites"):
        sys.modules.pop(name, None)


def test_every_network_is_evaluated_once_and_what_was_found_is_saved(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    suites = ["--suites", "fast", "standard:steps=2,targets=1,queries=5"]
    monkeypatch.setattr(sys, "argv", ["suites.py", *suites, "--name", "suites"])
    script.main()
    torch.set_num_threads(threads)
    record = json.loads((tmp_path / "results" / "suites.json").read_text())["results"]
    assert [one["network"] for one in record[::2]] == [
        "fashion-mixer-pgd",
        "fashion-cnn-bn-pgd",
        "attention",
        "attention+rounded",
    ]
    assert all(one["images"] == 12 and len(one["robust"]) == 12 for one in record)
    first = capsys.readouterr().out
    assert "fashion-mixer-pgd, fast:" in first
    monkeypatch.setattr(script.soar, "evaluate", lambda *_, **__: pytest.fail("evaluated again"))
    script.main()
    torch.set_num_threads(threads)
    assert (tmp_path / "results" / "suites.txt").read_text() in capsys.readouterr().out


def test_a_hidden_network_rounds_scales_or_adds_noise(script: ModuleType) -> None:
    networks = script.networks
    same = networks.Hidden(torch.nn.Flatten(), "scaled")
    x = torch.full((1, 1, 2, 2), 0.52)
    assert torch.allclose(same(x), torch.full((1, 4), 520.0))
    rounded = networks.Hidden(torch.nn.Flatten(), "rounded")
    assert torch.allclose(rounded(x), torch.full((1, 4), 8 / 15))
    noisy = networks.Hidden(torch.nn.Flatten(), "noisy")
    assert not torch.equal(noisy(x), noisy(x))
