from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from soar import recipes
from soar.attacks import ATTACKS
from soar.cli import completion, main
from soar.cli.main import COMMANDS, TAKES_FIELDS, make_parser
from soar.data.catalog import FETCHABLE
from soar.evaluation.methods import METHODS
from soar.evaluation.suites import SUITES
from soar.experiments.loading import studies, tables
from soar.models import MODELS
from soar.objectives import OBJECTIVES
from soar.recipes.overrides import flags


def asked(line: str) -> dict[str, str]:
    """What the shell sets when Tab is pressed at the end of a line."""
    return {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }


def after(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is offered at the end of a line, without the flags."""
    argcomplete = pytest.importorskip("argcomplete")
    for name, value in asked(line).items():
        monkeypatch.setenv(name, value)
    parser, output = make_parser(), io.StringIO()
    completion.prepare(parser, TAKES_FIELDS)

    def leave(_: int) -> None:
        raise SystemExit

    # It writes what it thinks to descriptor 9, which in a test is somebody else's.
    monkeypatch.setattr(argcomplete.CompletionFinder, "_init_debug_stream", lambda _: None)
    with pytest.raises(SystemExit):
        argcomplete.CompletionFinder()(parser, exit_method=leave, output_stream=output)
    words = [word.strip() for word in output.getvalue().split("\n")]
    return sorted(word for word in words if word and (not word.startswith("-") or line.endswith("-")))


NAMES = {
    "soar ": list(COMMANDS),
    "soar tr": ["train"],
    "soar train demo-r": ["demo-robust"],
    "soar train ": recipes.names(),
    "soar sweep cifar10-fast": ["cifar10-fast", "cifar10-fast-soar"],
    "soar train x --objective ": [entry.name for entry in OBJECTIVES],
    "soar train x --model.name ": [entry.name for entry in MODELS],
    "soar study x --optimizer ": ["muon", "sgd"],
    "soar train x --compile ": ["false", "true"],
    "soar train x --device c": ["cpu", "cuda"],
    "soar evaluate x --attacks ": [entry.name for entry in (*ATTACKS, *SUITES)],
    "soar evaluate x --split ": ["test", "train", "validation"],
    "soar certify x --method ": [entry.name for entry in METHODS],
    "soar bench step --objectives tr": ["trades"],
    "soar study ": studies(),
    "soar reproduce ": [*tables(), "all"],
    "soar data fetch ": list(FETCHABLE),
    "soar data v": ["verify"],
    "soar list re": ["recipes"],
    "soar sweep x --grid training.epo": ["training.epochs="],
}


@pytest.mark.parametrize("line", NAMES)
def test_names_are_offered(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert after(line, monkeypatch) == sorted(NAMES[line])


def test_fields_are_offered_beside_the_flags_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = after("soar train x --", monkeypatch) + after("soar train x -", monkeypatch)
    assert {*flags(), "--plan", "--resume"} <= {*offered}


def test_runs_and_files_are_offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/one", "runs/two", "runs/cache", "elsewhere/three", ".hidden/four"):
        (tmp_path / name).mkdir(parents=True)
        if not name.endswith("cache"):
            (tmp_path / name / "recipe.toml").touch()
    (tmp_path / "own.toml").touch()
    runs = [str(Path("runs", name)) for name in ("one", "two")]
    assert after("soar evaluate ", monkeypatch) == sorted(["elsewhere/", "runs/", *runs])
    assert after("soar report runs/", monkeypatch) == sorted(["runs/cache/", *runs])
    assert after("soar train --resume runs/o", monkeypatch) == [runs[0]]
    assert after("soar diagnose elsewhere/", monkeypatch) == ["elsewhere/three"]
    assert after("soar train o", monkeypatch) == ["own.toml"]


def test_the_shell_is_answered_without_importing_torch(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    answer = tmp_path / "answer"
    environment = os.environ | asked("soar evaluate x --attacks apgd-")
    environment |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-X", "importtime", "-m", "soar"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert answer.read_text().strip() == "apgd-t"
    assert "soar.cli.completion" in done.stderr and "torch" not in done.stderr


def test_without_argcomplete_the_command_runs_as_ever(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    assert main.main(["list", "models"]) == 0
    assert "resnet10" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["cli/main.py", "__main__.py"])
def test_the_mark_that_argcomplete_looks_for_is_at_the_beginning(name: str) -> None:
    source = Path(main.__file__).parents[1] / name
    assert "PYTHON_ARGCOMPLETE_OK" in source.read_text()[:1024]


@pytest.mark.parametrize(
    "registry, names",
    [
        (ATTACKS, "ATTACKS"),
        (SUITES, "SUITES"),
        (OBJECTIVES, "OBJECTIVES"),
        (MODELS, "MODELS"),
        (METHODS, "METHODS"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_read_from_the_sources_are_those_that_are_registered(registry: object, names: str) -> None:
    assert completion.registered(names) == [entry.name for entry in registry]  # type: ignore[attr-defined]
