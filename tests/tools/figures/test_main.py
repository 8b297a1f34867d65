"""Every figure of docs/explanations is what a command of its page draws."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tools.figures.__main__ import PARTS, main

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "explanations"
FIGURES = PAGES / "figures"
COMMAND = "python -m tools.figures "
MEASURED = ("attack-path", "kinks")
"""those that need a trained network; tests/docs draws them from a small one"""


def page_commands() -> list[str]:
    """Collect what the pages tell people to type, one command a line."""
    text = "\n".join(page.read_text() for page in sorted(PAGES.glob("*.md")))
    code = "".join(re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)).replace("\\\n", " ")
    return [shlex.join(shlex.split(line)) for line in code.splitlines()]


def test_every_part_has_a_figure_a_table_and_a_command_on_a_page() -> None:
    assert (
        {file.stem for file in FIGURES.glob("*.svg")}
        == {file.stem for file in FIGURES.glob("*.txt")}
        == set(PARTS)
    )
    typed = page_commands()
    for name in PARTS:
        header = (FIGURES / f"{name}.txt").read_text().splitlines()[0]
        assert header.removeprefix("# ") in typed, name


def test_every_figure_is_shown_with_words_for_those_who_do_not_see_it() -> None:
    text = "\n".join(page.read_text() for page in sorted(PAGES.glob("*.md")))
    shown = {path: words for words, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text)}
    assert {f"figures/{name}.svg" for name in PARTS} <= set(shown)
    assert all(len(words) > 40 for words in shown.values())


@pytest.mark.parametrize("name", [name for name in PARTS if name not in MEASURED])
def test_committed_tables_and_figures_are_what_the_commands_make(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    header, _, table = (FIGURES / f"{name}.txt").read_text().partition("\n\n")
    words = shlex.split(header.removeprefix(f"# {COMMAND}"))
    drawn = tmp_path / words[-1]
    assert main([*words[:-1], str(drawn)]) == 0
    assert capsys.readouterr().out == table
    assert drawn.stat().st_size > 10_000


@pytest.mark.parametrize("name", PARTS)
def test_every_color_of_a_figure_has_another_on_a_dark_page(name: str) -> None:
    text = (FIGURES / f"{name}.svg").read_text()
    used = set(re.findall(r'style="[^"]*(?:fill|stroke): (#[0-9a-f]{6})', text))
    assert used and used <= set(re.findall(r'\[style\*="fill: (#[0-9a-f]{6})"', text))


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "expected the name of a part: valley"),
        (["valey"], "did you mean 'valley'"),
        (["kinks"], "the following arguments are required: RUN"),
        (["kinks", "nowhere"], "nowhere: not a run folder, there is no recipe.toml in it"),
        (["kinks", "nowhere", "--samples", "0"], "--samples: got 0, expected at least 1"),
        (["attack-path", "nowhere", "--examples", "0"], "--examples: got 0, expected at least 1"),
        (["lengths", "--figure", "a.gif"], "--figure: got 'a.gif', expected a name that ends in .svg"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert message in told and re.fullmatch(r"soar: [^\n]+\n", told)
