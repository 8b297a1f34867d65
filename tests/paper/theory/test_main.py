from __future__ import annotations

import pytest

from soar.paper.theory.__main__ import PARTS, main


@pytest.mark.parametrize("part", PARTS)
def test_every_part_prints_a_table(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([part]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "which part? Say one of linear-regression"),
        (["liner-regression"], "did you mean 'linear-regression'"),
    ],
)
def test_mistakes_are_told(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
