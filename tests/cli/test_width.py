"""Lists, plans and tables at the usual widths of a terminal: whole words, aligned columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import soar.cost
from soar.cli.experiments import print_and_save
from soar.cli.listing import KINDS
from soar.cli.main import main
from soar.experiments import loading
from soar.experiments.claims import judge
from tests.cli.tiny import TINY
from tests.experiments.printed import printed

PLANS = (
    ["study", "starts", "--plan"],
    ["reproduce", "adv_linf", "--scale", "small", "--plan"],
    ["sweep", "demo-robust", "--grid", "objective.steps=1,2,3", "--plan"],
    ["train", "demo-robust", *TINY, "--plan", "--tflops", "0.001"],
)
_COSTED = 33
Printer = Callable[[list[str], int], str]
LISTS = (*(["list", kind] for kind in KINDS), ["data", "list"])


@pytest.fixture
def printed_at(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printer:
    # Counting the operations of every objective takes seconds, and is not what is looked at here.
    monkeypatch.setattr(soar.cost, "relative_work", lambda _: 0.5)

    def run(words: list[str], width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(words) == 0
        return capsys.readouterr().out

    return run


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _left(shown: str) -> int:
    """Return where the column of texts begins: behind the longest label."""
    first = next(line for line in shown.splitlines() if line.strip())
    return len(first) - len(re.sub(r"^\s*\S+( \S+)*?  +|^\s+", "", first))


@pytest.mark.parametrize("words", [*LISTS, *PLANS], ids=lambda words: " ".join(words[:2]))
def test_lists_and_plans_are_wrapped_between_words(
    words: list[str], folder: Path, printed_at: Printer
) -> None:
    whole = printed_at(words, 10_000)
    left = _left(whole)
    for width in (80, 120):
        shown = printed_at(words, width)
        assert shown.split() == whole.split(), "no word is broken, none is lost"
        for line in shown.splitlines():
            assert len(line) <= width or " " not in line.strip(), "only a single word may be too long"
            # What is no label stands in its column, and options two further in.
            assert not line.startswith(" ") or _indent(line) in (left, left + 2, _COSTED), line


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["adv_linf", "bbox", "mma"])
def test_tables_and_claims_are_no_wider_than_the_terminal_and_aligned(
    name: str, width: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = loading.load(name, scale="paper")
    result = printed(table)
    print_and_save(result, folder / "table.json", claims=judge(table.claims, result))
    shown = capsys.readouterr().out
    saved = (folder / "table.txt").read_text()
    assert max(map(len, shown.removesuffix(f"{folder / 'table.json'}\n").splitlines())) <= width
    assert saved.split() == shown.removesuffix(f"{folder / 'table.json'}\n").split()
    words = set(re.findall(r"\S+", " ".join([result.title, *(one.text for one in table.claims)])))
    assert words <= set(shown.split()), "every word is whole"
    for row in result.rows:
        # The numbers of a part end where its heads end, in every row.
        parts = [line for line in shown.splitlines() if line.startswith(f"{row}  ")]
        assert parts and all(re.search(r"[\d.±+-]$", line) for line in parts)
