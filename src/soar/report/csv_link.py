"""Tables as CSV files that the page itself holds: a link saves them without network or script."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from urllib.parse import quote

from soar.report.markup import Html, tag

Value = str | float | None


def csv_text(rows: Sequence[Sequence[Value]]) -> str:
    r"""Return rows as CSV (RFC 4180); numbers have six digits, what is not known is empty.

    >>> csv_text([("run", "accuracy"), ('a "b", c', 1 / 3), ("d", None)])
    'run,accuracy\r\n"a ""b"", c",0.333333\r\nd,\r\n'
    """
    written = io.StringIO()
    csv.writer(written).writerows([_plain(value) for value in row] for row in rows)
    return written.getvalue()


def csv_link(name: str, rows: Sequence[Sequence[Value]]) -> Html:
    """Return a link that saves rows as a CSV file.

    Args:
        name: the file's name, without the ending
        rows: the names of the columns, then the values
    """
    address = f"data:text/csv;charset=utf-8,{quote(csv_text(rows))}"
    return tag("a", "Save as CSV", href=address, download=f"{name}.csv", class_="csv")


def _plain(value: Value) -> str | None:
    return f"{value:.6g}" if isinstance(value, (int, float)) else value
