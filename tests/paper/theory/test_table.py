from __future__ import annotations

from soar.paper.theory.table import Rows, show


def test_columns_of_words_are_flush_left_and_numbers_flush_right() -> None:
    rows: Rows = [{"fit": "ridge", "loss": 0.123456, "d": 7}, {"fit": None, "loss": None, "d": 1234}]
    assert show(rows) == "fit      loss     d\nridge  0.1235     7\n               1234"
