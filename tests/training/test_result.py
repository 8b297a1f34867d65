from __future__ import annotations

from pathlib import Path

import pytest

from soar.errors import UserError
from soar.training.result import OUTCOME, Outcome


def test_an_outcome_comes_back_as_it_was(tmp_path: Path) -> None:
    assert Outcome.load(tmp_path) is None
    ended = Outcome("stopped", "the loss is not a number", 12.5, 20.5)
    ended.save(tmp_path)
    assert Outcome.load(tmp_path) == ended
    assert [path.name for path in tmp_path.iterdir()] == [OUTCOME]


def test_an_outcome_without_cpu_seconds_can_be_read(tmp_path: Path) -> None:
    (tmp_path / OUTCOME).write_text('{"status": "finished", "reason": "", "seconds": 1.4}')
    assert Outcome.load(tmp_path) == Outcome("finished", "", 1.4, None)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status": "finished"}', '{"a": 1}', "12"])
def test_a_damaged_outcome_is_told_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / OUTCOME).write_text(text)
    with pytest.raises(UserError, match=r"outcome.json: damaged; remove it") as caught:
        Outcome.load(tmp_path)
    assert "\n" not in str(caught.value)
