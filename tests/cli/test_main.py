from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from soar import __version__
from soar.cli.main import COMMANDS, main, make_parser
from soar.recipes.overrides import all_fields


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    assert COMMANDS[command].DESCRIPTION[:40] in " ".join(capsys.readouterr().out.split())


def test_help_of_train_lists_the_fields_with_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    assert "--training.epochs               How often every training example is seen; 1.5 ends" in shown
    assert "--guards.overfitting_drop" in shown and "--threat.eps" in shown


@pytest.mark.parametrize(
    "words, message",
    [
        (["trian"], "unknown command 'trian' (soar); did you mean 'train'?"),
        (["tran", "demo-robust"], "unknown command 'tran' (soar); did you mean 'train'?"),
        (["--versoin"], "unknown argument '--versoin' (soar); did you mean '--version'?"),
        (["list", "recipe"], "unknown kind 'recipe' (soar list); did you mean 'recipes'?"),
        (["data", "fecth", "cifar10"], "unknown action 'fecth' (soar data); did you mean 'fetch'?"),
        (["data", "fetch", "cifar10", "--form", "x"], "unknown argument '--form' (soar data fetch); did you"),
        (["bench", "step", "--repaets", "3"], "'--repaets' (soar bench step); did you mean '--repeats'?"),
        (["evaluate", "x", "--split", "tset"], "unknown value 'tset' (soar evaluate --split); did you mean"),
        (
            ["train", "demo-robust", "--outptu", "x"],
            "unknown flag '--outptu' (a recipe's field); did you mean",
        ),
        (["train", "--resum", "x"], "did you mean '--resume'?"),
        (["study", "starts", "--exmples", "3"], "did you mean '--examples'?"),
        (["sweep", "demo-robust", "--gird", "seed=1"], "did you mean '--grid'?"),
        (["train"], "which recipe? Say soar train RECIPE"),
        (
            ["train", "demo-robst"],
            "unknown recipe 'demo-robst' (see `soar list recipes`); did you mean 'demo-robust'?",
        ),
        (["train", "demo-robust", "--epoch", "3"], "did you mean '--epochs'?"),
        (["train", "demo-robust", "--epochs", "0"], "training.epochs: got 0, expected `int` >= 1"),
        (["train", "demo-robust", "--lr", "inf"], "training.lr: got inf, expected a finite number"),
        (["train", "demo-robust", "--seed", "9" * 20], "expected `int` <= 4611686018427387904 (flag --seed)"),
        (["train", "demo-robust", "--seed", "-1"], "seed: got -1, expected `int` >= 0 (flag --seed)"),
        (["train", "demo-robust", "--eps", "8"], "threat.eps: got 8.0 for linf, expected at most 1"),
        (["train", "demo-robust", "--objective", "advresarial"], "did you mean 'adversarial'?"),
        (["train", "demo-robust", "--objective.stps", "3"], "did you mean 'steps'?"),
        (["train", "demo-robust", "--model.widht", "3"], "did you mean 'width'?"),
        (
            ["train", "demo-robust", "--model", "torch.nn:Flatten"],
            "model: got no parameters that can be trained",
        ),
        (["train", "demo-robust", "--data", "cifar11"], "unknown dataset 'cifar11'"),
        (["train", "demo-robust", "--device", "gpu"], "unknown device 'gpu' (flag --device)"),
        (["train", "demo-robust", "--threads", "0"], "--threads: got 0, expected at least 1"),
        (["train", "demo-robust", "--track", "tensorbord"], "did you mean 'tensorboard'?"),
        (["train", "--resume", "nowhere"], "nowhere: not a run folder"),
        (["train", "demo-robust", "--resume", "x"], "--resume goes on with the recipe of the run"),
        (["train", "demo-robust", "--training.precision", "float16"], "expected one of float32, bfloat16"),
        (["train", "demo-robust", "--start_from", "nowhere"], "which holds no usable weights"),
        (
            ["train", "demo-robust", "--start_from", "runs/demo-standard"],
            "training.start_from: got 'runs/demo-standard', which holds no usable weights;"
            " train it first (soar train demo-standard) or start from scratch (--start_from null)",
        ),
        (["evaluate", "nowhere", "--attacks", "pgd:steps=0"], "attack.steps: got 0, expected at least 1"),
        (["evaluate", "x", "--attacks", "pgd:steps=x"], "got 'x', expected `int` (flag --attacks)"),
        (
            ["evaluate", "--model", "torch.nn:Flatten", "--data", "fashion-mnist-sample", "--eps", "0"],
            "threat.eps: got 0, expected a number above 0 (flag --eps)",
        ),
        (["evaluate"], "which model? Give a run folder"),
        (["evaluate", "nowhere"], "nowhere: not a run folder"),
        (["evaluate", "x", "--atacks", "quick"], "did you mean '--attacks'?"),
        (["evaluate", "--model", "torch.nn:Flatten"], "--model needs --data too"),
        (["demo", "--examples", "0"], "--examples: got 0, expected at least 1"),
    ],
)
def test_mistakes_get_one_clear_line_and_exit_code_2(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("soar: ") and message in shown.err
    assert shown.err.count("\n") == 1 and shown.out == ""
    assert list(tmp_path.iterdir()) == [], "a mistake leaves nothing behind"


def test_version_and_module_call() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "soar", "--version"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == f"soar {__version__}"


def test_no_flag_confuses_torchrun() -> None:
    # torchrun's parser refuses a flag of ours that abbreviates two of its own, wherever it stands.
    from torch.distributed.run import get_args_parser

    theirs = {flag.replace("_", "-") for flag in get_args_parser()._option_string_actions}
    commands = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    ours = {flag for command in commands.choices.values() for flag in command._option_string_actions}
    ours |= {f"--{field}" for field in all_fields()} | {f"--{f.rpartition('.')[2]}" for f in all_fields()}
    for flag in ours:
        confused = [their for their in theirs if their.startswith(flag.replace("_", "-"))]
        assert len(confused) < 2 or flag in ("-h", "--help"), f"{flag} abbreviates {confused}"


@pytest.mark.parametrize(
    "error, line",
    [
        (
            OSError(28, "No space left on device", "runs/a\x1b[31m/x.json"),
            "runs/a\\x1b[31m/x.json: No space left on",
        ),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (OSError("the disk is gone"), "the disk is gone"),
    ],
)
def test_what_the_operating_system_refuses_is_one_line(
    error: OSError, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(COMMANDS["list"], "run", refuse)
    assert main(["list", "models"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"soar: {line}") and told.count("\n") == 1


def test_mistakes_of_our_own_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: argparse.Namespace) -> int:
        raise RuntimeError("a bug")

    monkeypatch.setattr(COMMANDS["list"], "run", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["list", "models"])


@pytest.mark.filterwarnings("default")
def test_warnings_and_long_lines_stay_one_short_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(_: argparse.Namespace) -> int:
        warnings.warn("two\nlines \x1b[31m" + "x" * 3000 + " the end", stacklevel=1)
        return 0

    monkeypatch.setattr(COMMANDS["list"], "run", warn)
    assert main(["list", "models"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("soar: warning: two lines \\x1b[31mxxx") and told.endswith("xxx the end\n")
    assert told.count("\n") == 1 and len(told) < 1100


@pytest.mark.parametrize("flags, expected", [([], False), (["--deterministic"], True)])
@pytest.mark.parametrize("command", ["evaluate", "diagnose", "certify"])
def test_determinism_holds_during_the_command(
    command: str, flags: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def run(_: argparse.Namespace) -> int:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return 0

    monkeypatch.setattr(COMMANDS[command], "run", run)
    assert main([command, "somewhere", *flags]) == 0
    assert seen == [expected] and not torch.are_deterministic_algorithms_enabled()
