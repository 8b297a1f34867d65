"""Commands where parts of the system are missing, as on Windows; see `lacking`."""

from __future__ import annotations

import ast
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from soar import files
from soar.cli.main import main
from soar.experiments import local
from soar.files import clean, temporary_folder, write
from soar.models import MODELS
from soar.registry import Entry
from soar.training.guards import StopRequest
from tests.cli import lacking
from tests.cli.tiny import TINY
from tests.experiments.made import Pretender

SOURCES = Path(files.__file__).parent
STUDY = (
    'title = "d"\nrecipe = "demo-robust"\ncolumns = [{ kind = "assessment", attacks = ["fgsm"] }]\n'
    '[[rows]]\nname = "one"\n'
)
CALLS = (
    ["train", "demo-robust", *TINY, "--max_steps", "2", "--training.save_steps", "1", "--output", "run"],
    ["train", "--resume", "run", "--quiet"],
    ["evaluate", "run", "--attacks", "fgsm", "--examples", "8", "--threads", "1", "--quiet"],
    ["train", "demo-robust", *TINY, "--max_steps", "2", "--plan", "--tflops", "1"],
    ["study", "one.toml", *TINY, "--max_steps", "2", "--examples", "4", "--jobs", "1"],
    ["sweep", "demo-robust", "--grid", "lr=0.1", *TINY, "--max_steps", "2", "--jobs", "1"],
)
PROGRAM = """
from soar.cli.main import main
for words in {calls!r}:
    code = main(words)
    assert code == 0, (words, code)
"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take away in this process, until the test ends, what `lacking` takes away in others."""
    for module, names in lacking.MISSING.items():
        for name in names.split():
            # pytest asks who it is, and so does the finder of temporary folders.
            if name not in ("getuid", "geteuid"):
                monkeypatch.delattr(module, name, raising=False)
    monkeypatch.setattr(files, "_FOLDER", 0)
    for name in ("replace", "rename", "unlink", "remove"):
        monkeypatch.setattr(os, name, lacking.refusing(getattr(os, name)))
    monkeypatch.setattr(os, "open", lacking.opening(os.open))
    monkeypatch.setattr(os, "symlink", lacking.no_links)
    monkeypatch.setattr("shutil._use_fd_functions", False)
    monkeypatch.setattr("tempfile.TemporaryFile", tempfile.NamedTemporaryFile)
    monkeypatch.setitem(sys.modules, "resource", None)
    yield
    monkeypatch.undo()


def check(folder: Path, shown: str) -> None:
    assert "worst case" in shown and "selected on validation" in shown
    assert [path.name for path in folder.rglob(".soar-*")] == [], "temporary folders are removed"
    assert not (folder / "runs" / "study-one" / "one").exists(), "links are not allowed"


def test_train_resume_evaluate_study_and_sweep(
    folder: Path, here: Pretender, without: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.toml").write_text(STUDY)
    for words in CALLS:
        assert main(list(words)) == 0, words
    check(folder, capsys.readouterr().out)


@pytest.mark.slow
def test_the_same_in_processes_that_lack_it_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(STUDY)
    (tmp_path / "start").mkdir()
    source = Path(lacking.__file__).read_text()
    (tmp_path / "start" / "sitecustomize.py").write_text(f"{source}\n\ntake_away()\n")
    places = [str(tmp_path / "start"), *sys.path]
    # The name of the user is always set on Windows.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "USERNAME": "somebody"}
    program = [sys.executable, "-c", PROGRAM.format(calls=[list(words) for words in CALLS])]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    check(tmp_path, done.stdout)


def test_files_are_replaced_while_none_is_open(tmp_path: Path, without: None) -> None:
    for text in ("old", "new"):
        write(tmp_path / "file", text)
        assert (tmp_path / "file").read_bytes() == text.encode()
    with temporary_folder(tmp_path) as folder:
        clean(tmp_path)
        assert folder.is_dir(), "it is locked"
    (tmp_path / ".soar-left.tmp").mkdir()
    (tmp_path / ".soar-left.tmp" / "part").write_text("x")
    clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_in_the_place_of_a_temporary_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / ".soar-known.tmp").symlink_to("precious", target_is_directory=True)
    monkeypatch.setattr(files, "_FOLDER", 0)
    clean(tmp_path)
    assert (tmp_path / "precious").is_dir() and not [*(tmp_path / "precious").iterdir()]


def test_a_pipe_is_written_to_where_opening_always_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_NONBLOCK")
    monkeypatch.delattr(os, "set_blocking")
    pipe = tmp_path / "pipe"
    found: list[str] = []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write(pipe, "text")
    reader.join(10)
    assert found == ["text"]


def test_a_second_signal_has_its_usual_effect_without_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "kill")
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.signal == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("is_there, count", [(True, 3), (False, 5)])
def test_cores_are_counted_with_and_without_an_affinity(
    is_there: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    if is_there:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    else:
        monkeypatch.delattr(os, "sched_getaffinity")
    assert local.cores() == count


_TEXT = {"read_text": 0, "write_text": 1, "open": 0}


def _text_without_encoding(call: ast.Call) -> bool:
    """Return whether a call reads or writes text in the encoding of the system."""
    named = {keyword.arg for keyword in call.keywords}
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("Popen", "run", "check_output"):
        return "text" in named and "encoding" not in named
    if name not in _TEXT or "encoding" in named:
        return False
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name != "open":
        return True
    modes = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    is_file = owner == "" or owner.endswith(("path", "_file", "part"))
    return is_file and not any("b" in mode for mode in modes)


def test_text_is_read_and_written_as_utf_8_whatever_the_system_prefers() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _text_without_encoding(node)
    ]
    assert found == []


def test_letters_that_a_pipe_cannot_take_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a na\u00efve model \u2265 nothing, in a few words"
    monkeypatch.setitem(MODELS._entries, "own", Entry("own", lambda: None, text))
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="cp437", errors="strict")
    monkeypatch.setattr(sys, "stdout", pipe)
    assert main(["list", "models"]) == 0
    pipe.flush()
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert main(["list", "models"]) == 0
    ascii_only.flush()
    assert b"a na\x8bve model \xf2 nothing" in pipe.buffer.getvalue()
    assert b"a na?ve model ? nothing" in ascii_only.buffer.getvalue()


FORBIDDEN = '<>:"|?*\\'


@pytest.mark.parametrize("name", ["SOAR, h = 0.5", 'a<b>c:d"e|f?g*h\\i/j'])
def test_names_of_folders_hold_no_forbidden_characters(name: str) -> None:
    from soar.experiments.loading import folder_name

    assert not {*FORBIDDEN, "/"} & {*folder_name(name)}


def test_no_file_of_a_run_has_a_forbidden_character_in_its_name(
    folder: Path, here: Pretender, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.toml").write_text(STUDY.replace('name = "one"', 'name = "a: <b>"'))
    for words in CALLS[:1] + CALLS[2:3]:
        assert main(list(words)) == 0
    more = ["evaluate", "run", "--attacks", "pgd:steps=1,restarts=2", "--eps", "2/255", "4/255"]
    assert main([*more, *CALLS[2][4:]]) == 0 and main(list(CALLS[4])) == 0
    names = {path.name for path in folder.rglob("*")}
    assert "a-b" in names and len(names) > 15
    assert not [name for name in names if {*FORBIDDEN} & {*name}]
