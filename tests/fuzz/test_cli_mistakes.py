"""Known mistakes on the command line, each with the line that it gets; everything here is done for real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.world import World

EXTERNAL = ["evaluate", "--data", "fashion-mnist-sample", "--eps", "0.1", "--model"]
TRAIN = ["train", "demo-robust"]
PLAN = [*TRAIN, "--plan", "--tflops", "1", "--quiet"]
EVALUATE = ["evaluate", "run", "--attacks", "fgsm", "--examples", "2", "--quiet"]
SWEEP = ["sweep", "demo-robust", "--plan", "--grid"]
MILLION = ",".join(map(str, range(1_000_000)))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Calls that do everything."""
    return World(tmp_path_factory.mktemp("real"), stubbed=False)


@pytest.mark.parametrize(
    "words, message",
    [
        ([*TRAIN, "--objective", "0"], "unknown objective '0'"),
        ([*TRAIN, "--model", "{}"], "model.name: got {}, expected `str` (flag --model.name)"),
        ([*TRAIN, "--model", "[]"], "model.name: got [], expected `str` (flag --model.name)"),
        ([*TRAIN, "--seed", "9" * 5000], "seed: got '9999"),
        ([*TRAIN, "--seed", "0x" + "f" * 5000], "seed: got a number of thousands of digits, expected `int`"),
        ([*TRAIN, "--objective.x", "[" * 9 + "]" * 9], "nested too deeply"),
        ([*TRAIN, "--milestones", "[" * 5000], "training.milestones: got '[[["),
        ([*TRAIN, "--epochs", "1979-05-27"], "training.epochs: got '1979-05-27', expected `int | float`"),
        ([*TRAIN, "--epochs", "1\nx = 2"], "training.epochs: got '1\\nx = 2', expected `int | float`"),
        ([*TRAIN, "--lr", "nan"], "training.lr: got nan, expected"),
        ([*TRAIN, "--weight_decay", "nan"], "training.weight_decay: got nan, expected"),
        ([*TRAIN, "--objective.steps", str(2**64)], "objective.steps: got 18446744073709551616, expected"),
        ([*TRAIN, "--model.width", str(2**62)], "model: resnet10 cannot be built (RuntimeError: "),
        ([*TRAIN, "--threads", "100000"], "--threads: got 100000, expected at most "),
        (
            [*TRAIN, "--threads", "1.5"],
            "argument --threads: invalid int value: '1.5' (see soar train --help)",
        ),
        ([*TRAIN, "--output", "a" * 300], "File name too long"),
        ([*TRAIN, "--output", "a\udcffb"], "got 'a\\udcffb', expected text without null bytes"),
        ([*TRAIN, "--output", "a\x00b"], "got 'a\\x00b', expected text without null bytes"),
        ([*TRAIN, "--output", "pipe"], "pipe"),
        ([*TRAIN, "\x1b[31mred"], "got '\\x1b[31mred', expected a flag"),
        ([*TRAIN, "--plan", "--tflops", "inf"], "--tflops: got inf, expected at most"),
        ([*PLAN, "--threads", "-1"], "--threads: got -1, expected at least 1"),
        (["train", "a" * 5000 + ".toml"], "cannot be read (File name too long)"),
        (["train", "pipe.toml"], "pipe.toml: not a regular file, expected a TOML file"),
        (["train", "dir.toml"], "dir.toml: cannot be read (Is a directory)"),
        (["train", "loop.toml"], "loop.toml: cannot be read (Too many levels of symbolic links)"),
        (["train", "large.toml"], "large.toml: got more than 1,000,000 bytes"),
        (["train", "binary.toml"], "binary.toml: not a TOML file ("),
        (["train", "empty.toml"], "empty.toml: [model] needs a name (field model.name)"),
        (["train", "--resume", "piped"], "piped/recipe.toml: not a regular file"),
        (["train", "--resume", "damaged"], "damaged/recipe.toml: not a TOML file ("),
        (["study", "pipe.toml"], "pipe.toml: not a regular file"),
        ([*EVALUATE, "--seed", "-1"], "--seed: got -1, expected at least 0"),
        ([*EVALUATE, "--seed", str(2**63)], f"--seed: got {2**63}, expected at most {2**62}"),
        ([*EVALUATE, "--batch-size", "0"], "--batch-size: got 0, expected at least 1"),
        ([*EVALUATE, "--examples", "0"], "--examples: got 0, expected at least 1"),
        ([*EVALUATE, "--output", "pipe"], "--output: pipe exists already"),
        ([*EVALUATE, "--output", "a" * 300], "File name too long"),
        ([*EVALUATE, "--attacks", "pgd:steps=1", "pgd:steps=1"], "got 'PGD-1' more than once"),
        ([*EXTERNAL, "sys:exit"], "model: sys:exit fails (SystemExit"),
        ([*EXTERNAL, "torch.nn:Flatten", "--weights", "pipe.pt"], "--weights: pipe.pt does not exist"),
        (["export", "run", "--format", "onnx", "--output", "pipe"], "--output: pipe exists already"),
        ([*SWEEP, "lr=1,2", "--seeds", "1000000000"], "--seeds: got 1000000000, expected at most 100"),
        (
            [*SWEEP, f"lr={MILLION}"],
            "--grid: got 1,000,000 training runs, expected at most 10,000 in a sweep",
        ),
        ([*SWEEP, "lr=" + "1," * 1_000_000 + "1"], "expected every value once"),
        ([*SWEEP, "lr=1,2", "--jobs", "1000000"], "--jobs: got 1000000, expected at most 1024"),
        (["reproduce", "all", "--scale", "small", "--seeds", "1000000"], "--seeds: got 1000000, expected"),
        (["data", "verify", "svhn"], "svhn: 2 of 2 files are missing or damaged"),
        (["bench", "step", "--repeats", "10000000"], "--repeats: got 10000000, expected at most 1000000"),
        (["list", "\x1b[31m"], "unknown kind '\\x1b[31m' (soar list). Allowed: attacks, "),
        (["nonsense"], "unknown command 'nonsense' (soar). Allowed: bench, certify, "),
        ([], "the following arguments are required: COMMAND (see soar --help)"),
    ],
    ids=lambda value: (
        " ".join(value)[-40:].encode("unicode_escape").decode() if isinstance(value, list) else ""
    ),
)
def test_what_is_wrong_is_named(words: list[str], message: str, real: World) -> None:
    code, _, told = real.call(words)
    assert code == 2 and message in told


@pytest.mark.parametrize(
    "words",
    [
        [*PLAN, "--epochs", str(2**62)],
        [*PLAN, "--start_from", "2024"],
        [*PLAN, "--seed", str(2**62)],
        ["train", "bom.toml", *PLAN[2:]],
        [*EVALUATE, "--batch-size", str(2**31 - 1), "--output", "dir/found.json"],
        [*EVALUATE, "--seed", str(2**62), "--output", "[red]x.json"],
        [*SWEEP, "lr=0.1,0.2", "--seeds", "2"],
    ],
    ids=lambda words: words[-1],
)
def test_what_is_only_unusual_is_done(words: list[str], real: World) -> None:
    assert real.call(words)[0] == 0


AS_NOBODY = """
import os, sys
from soar.cli.main import main
for path in sys.argv[1:]:
    main(["train", "--resume", path])  # imports what it needs while it still may
if os.getuid() == 0:
    os.setuid(65534)
for path in sys.argv[1:]:
    print("as nobody:", main(["train", "--resume", path]), file=sys.stderr)
"""


def test_a_folder_that_may_not_be_read_is_one_line(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "recipe.toml").write_text("")
    locked.chmod(0)
    words = [sys.executable, "-c", AS_NOBODY, str(locked), str(locked / "deeper")]
    told = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path).stderr.splitlines()
    locked.chmod(0o700)
    said, as_nobody = told[-4::2], told[-3::2]
    assert as_nobody == ["as nobody: 2", "as nobody: 2"]
    assert said == [
        f"soar: {path / 'recipe.toml'}: cannot be read (Permission denied)"
        for path in (locked, locked / "deeper")
    ]
