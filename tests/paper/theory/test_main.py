"""Every command of docs/results/theory/README.md is typed here, with smaller numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from soar.paper.theory import subject
from soar.paper.theory.__main__ import PARTS, main
from tests.paper.theory.test_subject import tiny_recipe

__all__ = ["tiny_recipe"]

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "theory"
COMMAND = "python -m soar.paper.theory "


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line)[3:] for line in text.splitlines() if line.startswith(COMMAND)]


README_COMMANDS = commands((RESULTS / "README.md").read_text())


def test_the_readme_shows_every_part() -> None:
    assert {words[0] for words in README_COMMANDS} == set(PARTS)


@pytest.mark.usefixtures("tiny_recipe")
@pytest.mark.parametrize("words", README_COMMANDS, ids=" ".join)
def test_every_command_of_the_readme_runs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--examples", "1", "--samples", "3", "--quiet"] if words[0] == "tightness" else []
    if "runs/demo/standard" in words or "runs/demo/robust" in words:
        with subject.trained(Path(words[1]), mode="quiet"):
            pass
    assert main([*words, *few]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 4
    if "--figure" in words:
        assert Path(words[words.index("--figure") + 1]).stat().st_size > 1000


@pytest.mark.parametrize("name", ["linear-regression", "logistic-regression", "proposition-1"])
def test_committed_tables_are_what_the_commands_print(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    header, _, table = (RESULTS / f"{name}.txt").read_text().partition("\n\n")
    assert main(commands(header.removeprefix("# "))[0][:1]) == 0
    assert capsys.readouterr().out == table


def test_every_committed_table_names_its_command() -> None:
    files = sorted(RESULTS.glob("*.txt"))
    assert len(files) >= 5
    for file in files:
        assert file.read_text().startswith(
            f"# {COMMAND}{file.stem.partition('-standard')[0].partition('-robust')[0]}"
        )


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "which part? Say one of linear-regression"),
        (["liner-regression"], "did you mean 'linear-regression'"),
        (["proposition-1", "--colour"], "unrecognized arguments: --colour"),
        (["proposition-1", "--figure", "a.gif"], "--figure: got 'a.gif', expected a name that ends in .svg"),
        (["tightness", "--examples", "0"], "--examples: got 0, expected at least 1"),
        (["tightness", "--samples", "1"], "--samples: got 1, expected at least 2"),
        (["tightness", "--samples", "many"], "argument --samples: invalid int value: 'many'"),
        (["tightness", "--start", "one"], "argument --start: invalid choice: 'one'"),
        (["tightness", "nowhere"], "nowhere: not a run folder, there is no recipe.toml in it"),
        (
            ["tightness", "nowhere", "--output", "a"],
            "--output is for a network that is trained here; nowhere",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert message in told and re.fullmatch(r"soar: [^\n]+\n", told)


@pytest.mark.parametrize("words", [["--help"], ["tightness", "--help"]])
def test_help_is_shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == 0
    assert "usage: python -m soar.paper.theory" in capsys.readouterr().out


def test_an_interrupt_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subject, "trained", interrupt)
    assert main(["tightness"]) == 130
    assert capsys.readouterr().err == "soar: interrupted\n"
