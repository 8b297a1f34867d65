"""Commands on full disks and in folders without permission: one line, nothing lost, nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from soar.cli.main import main
from tests.cli.obstacles import contents, full_disk, mode_of_all, permissions_that_count
from tests.cli.tiny import TINY

FEW = ["--examples", "6", "--threads", "1", "--quiet"]
COMMANDS = {
    "train": ["train", "demo-robust", *TINY, "--output", "run/new"],
    "resume": ["train", "--resume", "run", "--threads", "1", "--quiet"],
    "evaluate": ["evaluate", "run", *FEW, "--attacks", "fgsm"],
    "diagnose": ["diagnose", "run", *FEW],
    "certify": ["certify", "run", *FEW, "--eps", "0.001"],
    "report": ["report", "run", *FEW],
    "export": ["export", "run", "--format", "torchscript", "-o", "run/model.ts"],
    "study": ["study", "starts", *TINY, "--examples", "6", "--output", "run/study"],
    "sweep": ["sweep", "demo-robust", *TINY[:-3], "--grid", "lr=0.1", "--cache", "run/cache", "--quiet"],
    "reproduce": ["reproduce", "theory", "--scale", "smoke", "--cache", "run/cache", "--quiet"],
    "fetch": ["data", "fetch", "cifar10", "--root", "run/data", "--quiet"],
}
READERS = {name: COMMANDS[name] for name in ("resume", "evaluate", "diagnose", "report", "export")}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("obstacles") / "run"
    assert main(["train", "demo-robust", *TINY, "--output", str(path)]) == 0
    return path


@pytest.fixture
def run(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run, in the current folder."""
    shutil.copytree(original, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def assert_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that cannot be done, and return the one line that says why."""
    capsys.readouterr()
    code = main(words)
    lines = capsys.readouterr().err.splitlines()
    mistakes = [line for line in lines if line.startswith("soar: ") and "soar: warning" not in line]
    assert code == 2 and len(mistakes) == 1, lines
    return mistakes[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_takes_no_files(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run)
    with mode_of_all(run, 0o500), permissions_that_count():
        line = assert_refused(COMMANDS[name], capsys)
    assert "Permission denied" in line
    assert contents(run) == before


@pytest.mark.parametrize("name", READERS)
def test_a_folder_that_cannot_be_read(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run)
    with mode_of_all(run, 0), permissions_that_count():
        line = assert_refused(COMMANDS[name], capsys)
    assert "Permission denied" in line
    assert contents(run) == before


@pytest.mark.parametrize("name", READERS)
def test_files_that_cannot_be_read(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in run.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(0)
    with permissions_that_count():
        assert "Permission denied" in assert_refused(COMMANDS[name], capsys)
    for path in files:
        path.chmod(0o600)


@pytest.mark.parametrize("room", [0, 5000, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("fetch", "resume")])
def test_a_full_disk(name: str, room: int, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(run)
    with full_disk(room):
        code = main(COMMANDS[name])
    lines = capsys.readouterr().err.splitlines()
    mistakes = [line for line in lines if line.startswith("soar: ") and "soar: warning" not in line]
    # A report can be whole without what it keeps for the next one; experiments have a line for every job.
    most = len(lines) if name in ("reproduce", "study", "sweep") else 1
    assert code in (0, 1, 2) and bool(mistakes) == (code != 0) and len(mistakes) <= most, lines
    assert not any("Traceback" in line for line in lines)
    after = contents(run)
    assert {file: after.get(file) for file in before} == before, "what was there is untouched"
    assert not [file for file in after if ".soar-" in file], "no temporary file is left"
