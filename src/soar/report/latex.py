"""One table as LaTeX: text that stays text, numbers set as numbers, never wider than the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

PACKAGES = (r"\usepackage{booktabs}", r"\usepackage{graphicx}", r"\usepackage[T1]{fontenc}")
"""what a document needs for the tables"""

_ESCAPED = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "†": r"\textdagger{}",
    "[": "{[}", "]": "{]}",
}  # fmt: skip
# As wide as it is, but no wider than the line: five runs beside each other still end inside of the page.
_FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def table(title: str, rows: Sequence[Sequence[str]]) -> str:
    r"""Write rows as a float with a caption.

    Args:
        title: the caption
        rows: the heads, then what stands below them; the first column is text, the others are numbers

    >>> print(table("Robust", [["run", "PGD-20"], ["a_b", "66.1% (63.1 to 69.0)"]]).splitlines()[8:10])
    ['\\midrule', 'a\\_b & 66.1\\% {\\small(63.1 to 69.0)} \\\\']
    """
    head, *body = rows
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(title)}}}",
            r"\par\medskip",
            _FITTED,
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            _row(map(escaped, head)),
            r"\midrule",
            *(_row([escaped(name), *map(_number, numbers)]) for name, *numbers in body),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    )


def escaped(text: str) -> str:
    r"""Escape what LaTeX would take for a command.

    >>> escaped("100% of a_b")
    '100\\% of a\\_b'
    """
    return "".join(_ESCAPED.get(character, character) for character in " ".join(text.split()))


def _number(text: str) -> str:
    r"""Set a number with its minus and its interval as a printer would.

    >>> _number("-47.4 (-51.2 to -43.6)")
    '$-$47.4 {\\small($-$51.2 to $-$43.6)}'
    """
    made = escaped(text)
    made = re.sub(r"(?<![\w-])-(?=\d)", "$-$", made)
    return re.sub(r"\([^()]*\d\)", lambda found: rf"{{\small{found[0]}}}", made)


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
