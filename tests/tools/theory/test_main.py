"""Every command of docs/results/theory/README.md is typed here, with smaller numbers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tools.theory.__main__ import PARTS, main

from soar.cli.main import main as soar
from tests.tools.figures.test_network import tiny_recipe
from tools.figures import network

__all__ = ["tiny_recipe"]

RESULTS = Path(__file__).parents[3] / "docs" / "results" / "theory"
COMMAND = "python -m tools.theory "


def readme_commands() -> list[list[str]]:
    """Collect what README tells people to type."""
    text = (RESULTS / "README.md").read_text()
    lines = [
        line
        for block in re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    return [shlex.split(line) for line in lines]


@pytest.mark.usefixtures("tiny_recipe")
def test_every_command_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = set()
    for words in readme_commands():
        if words[0] == "soar":
            assert soar([*words[1:], "--quiet", "--threads", "1"]) == 0, words
            continue
        assert shlex.join(words[:3]) == COMMAND.strip()
        seen.add(words[3])
        few = ["--examples", "1", "--samples", "3", "--quiet"] if words[3] == "tightness" else []
        capsys.readouterr()
        assert main([*words[3:], *few]) == 0, words
        assert len(capsys.readouterr().out.splitlines()) > 4
        if "--figure" in words:
            assert Path(words[words.index("--figure") + 1]).stat().st_size > 1000
    assert seen == set(PARTS)


@pytest.mark.parametrize("name", ["linear-regression", "logistic-regression", "proposition-1"])
def test_committed_tables_are_what_the_commands_print(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    header, _, table = (RESULTS / f"{name}.txt").read_text().partition("\n\n")
    assert header == f"# {COMMAND}{name} --figure {name}.svg"
    assert main([name]) == 0
    assert capsys.readouterr().out == table


def test_every_committed_table_names_a_command_of_the_readme() -> None:
    typed = [shlex.join(words) for words in readme_commands()]
    files = sorted(RESULTS.glob("*.txt"))
    assert len(files) >= 5
    for file in files:
        assert file.read_text().splitlines()[0].removeprefix("# ") in typed, file


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "expected the name of a part: linear-regression"),
        (["liner-regression"], "did you mean 'linear-regression'"),
        (["proposition-1", "--color"], "unrecognized arguments: --color"),
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
    assert "usage: python -m tools.theory" in capsys.readouterr().out


def test_an_interrupt_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(network, "trained", interrupt)
    assert main(["tightness"]) == 130
    assert capsys.readouterr().err == "soar: interrupted\n"
