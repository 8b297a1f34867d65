from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import safetensors.torch
import torch

from soar import recipes
from soar.cli.main import main
from soar.runs import find
from soar.weights import find_weights
from tests.cli.tiny import TINY


def test_training_leaves_a_complete_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "demo-robust", *TINY, "--track", "tensorboard"]) == 0
    run = tmp_path / "runs" / "demo-robust"
    expected = recipes.load("demo-robust", TINY[:-3])
    assert find(run).recipe == expected
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert {"loss", "accuracy", "grad_norm", "lr", "eps"} <= set(rows[0])
    assert rows[-1]["kind"] == "validation" and {"clean", "robust"} <= set(rows[-1])
    assert list((run / "tensorboard").iterdir())
    assert main(["train", "demo-robust", *TINY]) == 0
    assert (tmp_path / "runs" / "demo-robust-2").is_dir()
    capsys.readouterr()
    assert main(["train", "demo-robust", *TINY, "--output", str(run)]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_weights_of_another_run_can_be_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", "demo-robust", *TINY, "--output", "first"])
    main(["train", "demo-robust", *TINY, "--output", "second", "--start_from", "first", "--lr", "1e-20"])
    first, second = (
        safetensors.torch.load_file(find_weights(tmp_path / name, "test").file)
        for name in ("first", "second")
    )
    assert all(torch.allclose(first[name], second[name]) for name in first)


def test_a_damaged_checkpoint_is_told_in_a_line_and_the_one_before_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    main(["train", "demo-robust", *TINY, "--save_steps", "2", "--output", str(run)])
    whole = find_weights(run, "test").file.read_bytes()
    newest = sorted((run / "checkpoints").glob("step-*"))[-1]
    (newest / "trainer.pt").write_bytes(b"")
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["train", "--resume", str(run), "--quiet", "--threads", "1"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert len(told) == 1 and told[0].startswith(f"soar: warning: checkpoint {newest} is damaged")
    assert find_weights(run, "test").file.read_bytes() == whole


def test_models_from_elsewhere_are_trained_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "from torch.nn import *\ndef build(n=10):\n    return Sequential(Flatten(), Linear(784, n))\n"
    (tmp_path / "trained_elsewhere.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    flags = ["--model", "trained_elsewhere:build:n=10", *TINY[4:], "--output", "run"]
    assert main(["train", "demo-robust", *flags]) == 0
    assert main(["evaluate", "run", "--examples", "10", "--quiet", "--threads", "1"]) == 0
    capsys.readouterr()
    assert main(["train", "demo-robust", *flags[:-1], "other", "--model.width", "3"]) == 2
    assert "unexpected keyword argument 'width'" in capsys.readouterr().err


def test_a_terminated_command_says_how_to_go_on_and_ends_where_it_would_have(tmp_path: Path) -> None:
    flags = [*TINY[:-1], "--max_steps", "40"]
    command = [sys.executable, "-m", "soar", "train"]
    subprocess.run(
        [*command, "demo-robust", *flags, "--output", "whole"], cwd=tmp_path, check=True, capture_output=True
    )
    process = subprocess.Popen(
        [*command, "demo-robust", *flags, "--output", "cut"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "cut" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < 3:
        time.sleep(0.01)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "go on with: soar train --resume cut" in printed
    subprocess.run([*command, "--resume", "cut", "--quiet", "--threads", "1"], cwd=tmp_path, check=True)
    whole, cut = (
        safetensors.torch.load_file(find_weights(tmp_path / name, "t").file) for name in ("whole", "cut")
    )
    assert all(torch.equal(whole[name], cut[name]) for name in whole)


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    flags = [*TINY, "--validation.select", "clean"]
    one = [sys.executable, "-m", "soar"]
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "soar"]
    for name, start in (("one", one), ("two", two)):
        words = [*start, "train", "demo-robust", *flags, "--output", name]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    first, second = (
        safetensors.torch.load_file(find_weights(tmp_path / name, "t").file) for name in ("one", "two")
    )
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-3, atol=1e-5)
    for name, start in (("a", one), ("b", two)):
        words = [*start, "evaluate", "one", "--examples", "61", "--output", f"{name}.json", "--threads", "1"]
        subprocess.run([*words, "--quiet"], cwd=tmp_path, check=True, capture_output=True)
    alone, shared = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a", "b"))
    for part in ("index", "labels", "correct", "accuracy"):
        assert alone[part] == shared[part]
    for left, right in zip(alone["attacks"], shared["attacks"], strict=True):
        assert left["robust"] == right["robust"] and left["forward"] == right["forward"]
