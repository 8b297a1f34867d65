"""The numbers of a report as Markdown and LaTeX tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from soar import __version__
from soar.evaluation.assessment import CLEAN, WORST
from soar.evaluation.corruptions import corruption_rows
from soar.report.content import RunContent
from soar.report.markup import DISTRUST
from soar.report.sections.attacks import attack_labels
from soar.report.sections.comparison import TIED, caveats, difference, leaders, points, standing
from soar.text import interval, percent

_DAGGER = "†"
PACKAGES = (r"\usepackage{booktabs}", r"\usepackage{graphicx}", r"\usepackage[T1]{fontenc}")
"""what a document needs for the tables"""

_ESCAPED = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}", "†": r"\textdagger{}",
    "[": "{[}", "]": "{]}",
}  # fmt: skip
# As wide as it is, but no wider than the line, so that five runs beside each other fit on the page.
_FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_MARKDOWN = re.compile(r"([\\`*_\[\]#|~$>])")

Rows = list[list[str]]


def markdown(runs: Sequence[RunContent]) -> str:
    """Return the headline and the table of attacks as Markdown.

    Args:
        runs: what to show; differences are to the first
    """
    parts = [f"<!-- soar report {__version__} -->"]
    for title, rows in _tables(runs):
        parts.append(f"**{_in_markdown(title)}**\n\n{_lines(rows)}")
    parts.extend(_in_markdown(note) for note in _notes(runs))
    return "\n\n".join(parts) + "\n"


def latex(runs: Sequence[RunContent]) -> str:
    """Return the headline and the table of attacks as LaTeX.

    Args:
        runs: what to show; differences are to the first
    """
    notes = " ".join(_notes(runs))
    parts = [f"% soar report {__version__}; needs {' '.join(PACKAGES)}"]
    parts.extend(latex_table(f"{title}. {notes}", rows) for title, rows in _tables(runs))
    return "\n\n".join(parts) + "\n"


def _tables(runs: Sequence[RunContent]) -> list[tuple[str, Rows]]:
    measured = [run for run in runs if run.corruptions]
    return [
        ("Clean and worst-case accuracy", _headline(runs)),
        ("Accuracy under each attack", _by_attack(runs)),
        *([("Mean accuracy under common corruptions", _by_corruption(measured))] if measured else []),
    ]


def _headline(runs: Sequence[RunContent]) -> Rows:
    leading = leaders(runs)
    is_certified = any(run.bracket for run in runs)
    head = ["run", "clean", "worst case", *(["certified"] if is_certified else []), "verdict"]
    is_compared = len(runs) > 1
    rows = [head + ([f"worst case against {runs[0].name}"] if is_compared else [])]
    for place, run in enumerate(runs):
        called = standing(place, leading)
        row = [
            f"{run.name} ({called})" if called else run.name,
            _share(run, CLEAN),
            _share(run, WORST),
            *([_certified(run)] if is_certified else []),
            run.verdict.text,
        ]
        if is_compared:
            apart = difference(run.assessment, runs[0].assessment, WORST)
            doubtful = run.verdict.is_masked or runs[0].verdict.is_masked
            row.append("-" if place == 0 else points(apart) + (f" {_DAGGER}" if doubtful else ""))
        rows.append(row)
    return rows


def _by_attack(runs: Sequence[RunContent]) -> Rows:
    rows = [["attack", *(f"{run.name} {_DAGGER}" if run.verdict.is_masked else run.name for run in runs)]]
    return rows + [
        [label, *(_share(run, label) for run in runs)] for label in (CLEAN, *attack_labels(runs), WORST)
    ]


def _by_corruption(runs: Sequence[RunContent]) -> Rows:
    columns = [corruption_rows(run.corruptions) for run in runs if run.corruptions]
    rows = [["corruption", *(run.name for run in runs)]]
    return rows + [[cells[0][0], *(one[-1] for one in cells)] for cells in zip(*columns, strict=True)]


def _share(run: RunContent, label: str) -> str:
    """Format an accuracy with its interval, marked where it is not to be trusted."""
    found = run.assessment
    if label not in found.names:
        return "not run"
    dagger = f" {_DAGGER}" if label != CLEAN and run.verdict.is_masked else ""
    return f"{percent(found.accuracy(label))} ({interval(*found.interval(label))}){dagger}"


def _certified(run: RunContent) -> str:
    """Format the certified accuracy, and on how many images where they are not those of the assessment."""
    found = run.bracket
    if found is None:
        return "not run"
    return percent(found.certified) + (
        "" if found.examples == len(run.assessment) else f" of {found.examples}"
    )


def _notes(runs: Sequence[RunContent]) -> list[str]:
    """Return what the tables are about, and whether to trust them."""
    tasks = dict.fromkeys(
        f"{len(run.assessment)} images of {run.assessment.data}, {run.assessment.threat}" for run in runs
    )
    verdicts = "; ".join(f"{run.name}: {run.verdict.text}" for run in runs)
    notes = [
        f"{'; '.join(tasks)}. In parentheses: 95% intervals.",
        *(["Differences are in points, paired on the same examples."] if len(runs) > 1 else []),
        *([f"{TIED.capitalize()}."] if len(leaders(runs)) > 1 else []),
        f"Verdict on the measurement, by checks for gradient masking: {verdicts}.",
        *caveats(runs),
    ]
    if any(run.verdict.is_masked for run in runs):
        notes.append(f"{_DAGGER} {DISTRUST}")
    return notes


def _lines(rows: Rows) -> str:
    head, *body = rows
    rule = "|".join(["", "---", *("---:" for _ in head[1:]), ""])
    written = [f"| {' | '.join(map(_in_markdown, row))} |" for row in (head, *body)]
    return "\n".join([written[0], rule, *written[1:]])


def _in_markdown(text: str) -> str:
    r"""Escape what Markdown, or HTML inside of it, would take for markup.

    >>> _in_markdown("a|b_c <i>")
    'a\\|b\\_c &lt;i\\>'
    """
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", plain)


def latex_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    r"""Return rows as a float with a caption, never wider than the page.

    Args:
        title: the caption
        rows: the headings, then the body; the first column is text, the others are numbers

    >>> print(latex_table("Robust", [["run", "PGD-20"], ["a_b", "66.1% (63.1 to 69.0)"]]).splitlines()[8:10])
    ['\\midrule', 'a\\_b & 66.1\\% {\\small(63.1 to 69.0)} \\\\']
    """
    head, *body = rows
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_in_latex(title)}}}",
            r"\par\medskip",
            _FITTED,
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            _row(map(_in_latex, head)),
            r"\midrule",
            *(_row([_in_latex(name), *map(_number, numbers)]) for name, *numbers in body),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
    )


def _in_latex(text: str) -> str:
    r"""Escape what LaTeX would take for a command.

    >>> _in_latex("100% of a_b")
    '100\\% of a\\_b'
    """
    return "".join(_ESCAPED.get(character, character) for character in " ".join(text.split()))


def _number(text: str) -> str:
    r"""Typeset the minus signs and the interval of a number.

    >>> _number("-47.4 (-51.2 to -43.6)")
    '$-$47.4 {\\small($-$51.2 to $-$43.6)}'
    """
    made = _in_latex(text)
    made = re.sub(r"(?<![\w-])-(?=\d)", "$-$", made)
    return re.sub(r"\([^()]*\d\)", lambda found: rf"{{\small{found[0]}}}", made)


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
