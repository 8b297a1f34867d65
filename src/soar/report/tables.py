"""The numbers of a report as Markdown and LaTeX tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from soar import __version__
from soar.errors import UserError
from soar.evaluation.assessment import CLEAN, WORST
from soar.report.comparison import best, caveats, difference, points
from soar.report.content import DISTRUST, RunContent, standing
from soar.report.latex import PACKAGES, table
from soar.report.sections.attacks import labels
from soar.text import interval, percent

_DAGGER = "†"
_MARKDOWN = re.compile(r"([\\`*_\[\]#|~$>])")

Rows = list[list[str]]


def markdown(runs: Sequence[RunContent]) -> str:
    """Write the headline and the table by attack as Markdown.

    Args:
        runs: what to show; differences are taken to the first

    Raises:
        UserError: if there is no run
    """
    parts = [f"<!-- soar report {__version__} -->"]
    for title, rows in _tables(runs):
        parts.append(f"**{_in_markdown(title)}**\n\n{_lines(rows)}")
    parts.extend(_in_markdown(note) for note in _notes(runs))
    return "\n\n".join(parts) + "\n"


def latex(runs: Sequence[RunContent]) -> str:
    """Write the headline and the table by attack as LaTeX.

    Args:
        runs: what to show; differences are taken to the first

    Raises:
        UserError: if there is no run
    """
    notes = " ".join(_notes(runs))
    parts = [f"% soar report {__version__}; needs {' '.join(PACKAGES)}"]
    parts.extend(table(f"{title}. {notes}", rows) for title, rows in _tables(runs))
    return "\n\n".join(parts) + "\n"


def _tables(runs: Sequence[RunContent]) -> list[tuple[str, Rows]]:
    if not runs:
        raise UserError("report: got no run, expected at least one")
    return [
        ("Clean and worst-case accuracy", _headline(runs)),
        ("Accuracy under each attack", _by_attack(runs)),
    ]


def _headline(runs: Sequence[RunContent]) -> Rows:
    leading = best(runs)
    head = ["run", "clean", "worst case", "verdict"]
    is_compared = len(runs) > 1
    rows = [head + ([f"worst case against {runs[0].name}"] if is_compared else [])]
    for place, run in enumerate(runs):
        row = [
            f"{run.name} (best)" if place in leading else run.name,
            _share(run, CLEAN),
            _share(run, WORST),
            standing(run).word,
        ]
        if is_compared:
            apart = difference(run.assessment, runs[0].assessment, WORST)
            doubtful = standing(run).is_masked or standing(runs[0]).is_masked
            row.append("-" if place == 0 else points(apart) + (f" {_DAGGER}" if doubtful else ""))
        rows.append(row)
    return rows


def _by_attack(runs: Sequence[RunContent]) -> Rows:
    rows = [["attack", *(f"{run.name} {_DAGGER}" if standing(run).is_masked else run.name for run in runs)]]
    return rows + [[label, *(_share(run, label) for run in runs)] for label in (CLEAN, *labels(runs), WORST)]


def _share(run: RunContent, label: str) -> str:
    """Write an accuracy with its interval, marked where it is not to be trusted."""
    found = run.assessment
    if label not in found.names:
        return "not run"
    dagger = f" {_DAGGER}" if label != CLEAN and standing(run).is_masked else ""
    return f"{percent(found.accuracy(label))} ({interval(*found.interval(label))}){dagger}"


def _notes(runs: Sequence[RunContent]) -> list[str]:
    """Say what the tables are about, and whether to believe them."""
    tasks = dict.fromkeys(
        f"{len(run.assessment)} images of {run.assessment.data}, {run.assessment.threat}" for run in runs
    )
    verdicts = "; ".join(f"{run.name}: {standing(run).word}" for run in runs)
    notes = [
        f"{'; '.join(tasks)}. In parentheses: 95% intervals.",
        *(["Differences are in points, paired on the same examples."] if len(runs) > 1 else []),
        f"Verdict on gradient masking: {verdicts}.",
        *caveats(runs),
    ]
    if any(standing(run).is_masked for run in runs):
        notes.append(f"{_DAGGER} {DISTRUST}")
    return notes


def _lines(rows: Rows) -> str:
    head, *body = rows
    rule = "|".join(["", "---", *("---:" for _ in head[1:]), ""])
    written = [f"| {' | '.join(map(_in_markdown, row))} |" for row in (head, *body)]
    return "\n".join([written[0], rule, *written[1:]])


def _in_markdown(text: str) -> str:
    r"""Escape what Markdown or the HTML inside of it would take for markup.

    >>> _in_markdown("a|b_c <i>")
    'a\\|b\\_c &lt;i\\>'
    """
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", plain)
