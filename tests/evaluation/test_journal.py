from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.attacks import PGD, Outcomes
from soar.evaluation import evaluate
from soar.evaluation.journal import Journal, Row, remove_journals
from soar.threat import Linf
from tests.evaluation.test_evaluate import problem

ROWS = (Row(1, 5, 4, 7), Row(0, 2, 1, 6), Row(1, 9, 8, 7))


def outcomes() -> Outcomes:
    columns = {name: torch.tensor([getattr(row, name) for row in ROWS]) for name in Row._fields}
    return Outcomes(correct=torch.ones(3, dtype=torch.bool), adversarial=torch.zeros(3, 1), **columns)


def write(path: Path, owner: str = "f", rank: int = 0, rows: tuple[int, ...] = (0, 1, 2)) -> None:
    Journal(path, owner, rank).write("A", torch.tensor([3, 9, 5]), list(rows), outcomes())


def read(path: Path) -> dict[str, dict[int, Row]]:
    return Journal(path, "f").known


def test_lines_of_all_processes_are_read_and_those_of_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a [1].jsonl"
    write(path, rows=(0,))
    write(path, rank=1, rows=(1,))
    write(path, "other", rows=(2,))
    assert read(path) == {"A": {3: ROWS[0], 9: ROWS[1]}}
    (tmp_path / "mine.jsonl").write_text("not a journal")
    remove_journals(path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.jsonl"]


@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_changed_bit_costs_no_more_than_its_line(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    write(path)
    file = path.with_name("j.rank0.jsonl")
    data = bytearray(file.read_bytes())
    place %= len(data)
    data[place] ^= 1 << bit
    file.write_bytes(bytes(data))
    known = read(path).get("A", {})
    whole = dict(zip((3, 9, 5), ROWS, strict=True))
    assert known.items() <= whole.items(), "no changed line is believed"
    # A line break that became something else joins two lines.
    assert len(known) >= 1


def test_a_flipped_outcome_is_attacked_again(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "j.jsonl"
    expected = evaluate(model, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    file = tmp_path / "j.rank0.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line[3] = 1 - line[3]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = evaluate(model, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    assert torch.equal(found.attacks[0].robust, expected.attacks[0].robust)


def test_other_images_do_not_get_the_outcomes_of_the_journal(tmp_path: Path) -> None:
    model, x, labels = problem()
    journal = tmp_path / "j.jsonl"
    evaluate(model, (x, labels), Linf(0.05), [PGD(steps=4)], journal=journal)
    others = x.flip(0), labels.flip(0)
    expected = evaluate(model, others, Linf(0.05), [PGD(steps=4)])
    found = evaluate(model, others, Linf(0.05), [PGD(steps=4)], journal=journal)
    assert torch.equal(found.attacks[0].robust, expected.attacks[0].robust)


def test_a_line_that_was_cut_costs_no_other(tmp_path: Path) -> None:
    path, file = tmp_path / "j.jsonl", tmp_path / "j.rank0.jsonl"
    write(path, rows=(0, 1))
    file.write_bytes(file.read_bytes()[:-9])
    write(path, rows=(2,))
    assert read(path) == {"A": {3: ROWS[0], 5: ROWS[2]}}


@pytest.mark.parametrize(
    "line",
    [
        '["f", "A", 3, 1, 5, 4]',
        '["f", "A", 3, 1, 5, 4, 7]',
        "3",
        "null",
        "[]",
        '["f", "A", 1, 2, 3, 4, 5, 6]',
        "\x00",
    ],
)
def test_journal_lines_of_another_form_are_passed_over(tmp_path: Path, line: str) -> None:
    (tmp_path / "j.rank0.jsonl").write_text(line + "\n")
    assert Journal(tmp_path / "j.jsonl", "f").known == {}


class Full:
    """A file on a full disk."""

    def tell(self) -> int:
        return 0

    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_full_disk_is_said_once_and_the_evaluation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, labels = problem()
    opened = Path.open

    def full(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        return Full() if "a" in mode else opened(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    text = r"j.rank0.jsonl: cannot be written \(No space left on device\); what is found from here on would"
    with pytest.warns(UserWarning, match=text) as warned:
        found = evaluate(
            model, (x, labels), Linf(0.05), [PGD(steps=4)], journal=tmp_path / "j.jsonl", batch_size=2
        )
    assert len(warned) == 1
    expected = evaluate(model, (x, labels), Linf(0.05), [PGD(steps=4)])
    assert torch.equal(found.attacks[0].robust, expected.attacks[0].robust)


def test_a_journal_that_cannot_be_read_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "j.jsonl")

    def refuse(*_: Any, **__: Any) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.warns(UserWarning, match=r"not used, it cannot be read \(Permission denied\)"):
        assert read(tmp_path / "j.jsonl") == {}
