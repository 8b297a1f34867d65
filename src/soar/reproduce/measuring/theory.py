"""A number of the paper's theory, looked up in the table that computes it."""

from __future__ import annotations

from collections.abc import Callable

from soar.paper.theory import Rows, linear_regression, logistic_regression, proposition_1
from soar.reproduce.measuring.subject import Found, Subject

_RADIUS = 3.0

PARTS: dict[str, Callable[[], Rows]] = {
    "linear": linear_regression.table,
    "expansions": linear_regression.expansions,
    "logistic": lambda: logistic_regression.table(_RADIUS),
    "proposition": proposition_1.table,
}


def theory(subject: Subject) -> Found:
    """Give a column of the one row that has the given entries, over another column where one is named.

    Args:
        subject: options name the part, the row and the column
    """
    options = subject.options
    rows = PARTS[options["part"]]()
    where = options["where"].items()
    (row,) = [row for row in rows if all(row[key] == value for key, value in where)]
    value = float(row[options["column"]])
    return Found(value / float(row[options["over"]]) if "over" in options else value)
