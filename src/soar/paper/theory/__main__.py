"""Print a part of the theory: `python -m soar.paper.theory linear-regression`."""

from __future__ import annotations

import sys

from soar.errors import UserError, unknown
from soar.paper.theory import linear_regression, logistic_regression
from soar.paper.theory.table import show

PARTS = {"linear-regression": linear_regression, "logistic-regression": logistic_regression}


def main(words: list[str]) -> int:
    """Print the table of the part that was asked for, or say which parts there are."""
    try:
        if len(words) != 1:
            raise UserError(f"which part? Say one of {', '.join(PARTS)}")
        if words[0] not in PARTS:
            raise unknown("part", words[0], PARTS, "soar.paper.theory")
        print(show(PARTS[words[0]].table()))
        return 0
    except UserError as error:
        print(f"soar: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
