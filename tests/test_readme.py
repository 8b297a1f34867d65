"""Everything that README tells people to type is typed here, with smaller numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.docs.conftest import small_world as small_world
from tests.docs.running import ROOT, blocks, commands, run_command, run_python

README = (ROOT / "README.md").read_text()


def code(language: str) -> list[str]:
    return [block.text for block in blocks(README) if block.language == language]


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
    for block in code("python"):
        run_python(block, names, "README.md")
    assert not torch.equal(linear.weight, before)
    assert (tmp_path / "assessment.json").exists()


def test_every_command_runs(small_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(small_world))
    (small_world / "my_package").mkdir()
    source = "from torch.nn import *\ndef build():\n    return Sequential(Flatten(), Linear(784, 10))\n"
    (small_world / "my_package" / "my_module.py").write_text(source)
    tensors = {"1.weight": torch.zeros(10, 784), "1.bias": torch.zeros(10)}
    safetensors.torch.save_file(tensors, small_world / "w.safetensors")
    typed = [words for block in code("bash") for words in commands(block)]
    assert ["make", "demo"] in typed and ["make", "test"] in typed
    for words in typed:
        run_command(words, "README.md")


def test_files_that_readme_shows_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
