"""Everything that README tells people to type is typed here, with smaller numbers."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from soar import recipes
from soar.cli.main import main
from tests.cli.tiny import TINY

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.strip()]
    return [shlex.split(line, comments=True) for line in lines]


def test_python_blocks_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    linear = nn.Linear(48, 3)
    model = nn.Sequential(nn.Flatten(), linear)
    images, labels = torch.rand(8, 3, 4, 4), torch.arange(8) % 3
    names = {
        "model": model,
        "loader": [(images, labels)] * 3,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "images": images,
        "labels": labels,
    }
    before = linear.weight.detach().clone()
    for block in blocks("python"):
        exec(block, names)
    assert not torch.equal(linear.weight, before)
    assert (tmp_path / "assessment.json").exists()


def test_make_targets_exist() -> None:
    targets = [words[1] for words in commands() if words[0] == "make"]
    assert targets == ["demo", "test"]
    for target in targets:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_package").mkdir()
    source = "from torch.nn import *\ndef build():\n    return Sequential(Flatten(), Linear(784, 10))\n"
    (tmp_path / "my_package" / "my_module.py").write_text(source)
    tensors = {"1.weight": torch.zeros(10, 784), "1.bias": torch.zeros(10)}
    import safetensors.torch

    safetensors.torch.save_file(tensors, tmp_path / "w.safetensors")
    load = recipes.load
    # The recipes themselves are trained for six steps, and CIFAR-10 is replaced by the bundled data.
    smaller = [*TINY[:-3], "--data", "fashion-mnist-sample"]
    monkeypatch.setattr(recipes, "load", lambda name, flags=(): load(name, [*flags, *_fit(name, smaller)]))
    for words in commands():
        if words[:3] == ["soar", "data", "fetch"] or words[0] == "make":
            continue  # the network tests fetch for real
        if words[0] == "torchrun":
            assert words[3:6] == ["-m", "soar", "train"]  # tests/cli/test_train.py runs two processes
            words = ["soar", *words[5:]]
        assert words[0] == "soar"
        few = {
            "evaluate": ["--examples", "5"],
            "diagnose": ["--examples", "3"],
            "report": ["--examples", "3"],
            "sweep": ["--max_steps", "2", "--model.width", "4", "--validation.examples", "5"],
            "study": ["--examples", "5", "--max_steps", "1", "--validation.examples", "5"],
        }.get(words[1], [])
        quiet = [] if words[1] == "list" else ["--quiet", "--threads", "1"]
        assert main([*words[1:], *few, *quiet]) == 0, words


def _fit(name: str | Path, flags: list[str]) -> list[str]:
    """The CIFAR recipes use a network that knows the mean of CIFAR's colours."""
    return [*flags, "--model.input_normalization", "none"] if "cifar" in str(name) else flags


def test_files_that_readme_shows_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
