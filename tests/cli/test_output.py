"""Whatever takes long finds out before it begins whether its result can be written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from soar import files
from soar.cli.main import main
from tests.cli.tiny import TINY
from tests.experiments.made import Pretender

SWEEP = ["sweep", "demo-robust", "--grid", "objective.steps=1", *TINY, "--max_steps", "1"]
STUDY = (
    'title = "d"\nrecipe = "demo-robust"\ncolumns = [{ kind = "assessment", attacks = ["fgsm"] }]\n'
    '[[rows]]\nname = "one"\n'
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and a file where a folder is wanted."""
    path = tmp_path_factory.mktemp("output")
    assert main(["train", "demo-robust", *TINY, "--max_steps", "1", "--output", str(path / "run")]) == 0
    (path / "file").write_text("mine")
    return path


@pytest.mark.parametrize(
    "words, flag",
    [
        (["train", "demo-robust", "--output", "file/x"], "--output"),
        (["evaluate", "run", "--attacks", "fgsm", "--output", "file/x.json"], "--output"),
        (["diagnose", "run", "--output", "file/x.json"], "--output"),
        (["certify", "run", "--output", "file/x.json"], "--output"),
        (["report", "run", "--output", "file/x.html"], "--output"),
        (["export", "run", "--format", "onnx", "--output", "file/x.onnx"], "--output"),
        (["study", "starts", "--output", "file/x"], "--output"),
        (["demo", "--output", "file/x"], "--output"),
        (["bench", "step", "--output", "file/x.json"], "--output"),
        (["reproduce", "theory", "--scale", "smoke", "--output", "file/x"], "--output"),
        (["reproduce", "theory", "--scale", "smoke", "--cache", "file/x"], "--cache"),
        (["sweep", "demo-robust", "--grid", "objective.steps=1,2", "--output", "file/x"], "--output"),
        (["sweep", "demo-robust", "--grid", "objective.steps=1,2", "--cache", "file/x"], "--cache"),
        (["data", "fetch", "cifar10", "--root", "file/x"], "--root"),
    ],
    ids=lambda value: " ".join(value[:1]) if isinstance(value, list) else value,
)
def test_a_place_that_takes_no_files_is_told_before_the_work(
    words: list[str],
    flag: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    assert main(words) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("soar: ") and flag in last and "file" in last
    assert (place / "file").read_text() == "mine"
    made = set(place.rglob("*")) - set(before)
    assert not [path for path in made if path.is_file()], "nothing was worked on"


def _full_from(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full when a file of this name is moved into its place."""
    move = files._move

    def moved(temporary: Path, target: Path, *, overwrite: bool) -> None:
        if target.name == name:
            raise OSError(errno.ENOSPC, "No space left on device", str(temporary))
        move(temporary, target, overwrite=overwrite)

    monkeypatch.setattr(files, "_move", moved)


@pytest.mark.parametrize(
    "words, name",
    [
        (SWEEP, "sweep.txt"),
        (["study", "one.toml", *TINY, "--examples", "4"], "study.txt"),
        (["reproduce", "theory", "--scale", "smoke", "--quiet"], "theory-smoke.txt"),
    ],
)
def test_a_result_is_replaced_as_a_whole_or_not_at_all(
    words: list[str],
    name: str,
    folder: Path,
    here: Pretender,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "one.toml").write_text(STUDY)
    (folder / "out").mkdir()
    (folder / "out" / name).write_text("precious")
    _full_from(name, monkeypatch)
    assert main([*words, "--output", "out"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"soar: {Path('out') / name}: cannot be written (No space left on device)"
    assert (folder / "out" / name).read_text() == "precious"
