"""The first section: clean and robust accuracy of every run, and whether to trust it."""

from __future__ import annotations

from collections.abc import Sequence

from soar import text
from soar.evaluation.assessment import CLEAN, WORST, Assessment
from soar.evaluation.bracket import Bracket
from soar.report.content import RunContent
from soar.report.markup import SIGNS, Html, Kind, join, mark, section, tag, whole
from soar.report.sections import comparison

_WARNINGS: dict[Kind, str] = {
    "masked": "Not to be trusted",
    "suspicious": "Not to be quoted yet",
    "inconclusive": "Not confirmed",
}
_WHY = {
    "best": "highest worst-case accuracy of the runs to trust, and not tied with any other",
    "tied for best": f"the highest worst-case accuracy of the runs to trust, or {comparison.TIED}",
}


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the main numbers of every run, and how they differ."""
    leading = comparison.leaders(runs)
    cards = [_card(place, run, comparison.standing(place, leading)) for place, run in enumerate(runs)]
    return section(
        "headline",
        "Robust accuracy",
        *(_alarm(place, run) for place, run in enumerate(runs) if run.verdict.is_masked),
        tag("div", *cards, class_="cards headline"),
        _legend(runs),
        comparison.draw(runs, leading) if len(runs) > 1 else None,
    )


def _alarm(place: int, run: RunContent) -> Html:
    """Warn of a masked run before anything else is read."""
    reached = text.percent(run.assessment.worst_case)
    sign = tag("span", SIGNS["masked"], class_="sign", aria_hidden="true")
    return tag(
        "div",
        tag("strong", sign, f" {run.name} is masked: its {reached} is not to be trusted."),
        " Attacks that follow the gradient are misled here, so this is an upper bound and not robustness. ",
        run.verdict.reason,
        class_="alarm",
        role="alert",
        data_run=place,
    )


def _card(place: int, run: RunContent, standing: str) -> Html:
    found, verdict = run.assessment, run.verdict
    star = tag("span", f"★ {standing}" if standing == "best" else standing, title=_WHY.get(standing))
    badge = mark(verdict.kind, verdict.text)
    number = tag("del" if verdict.is_masked else "span", text.percent(found.worst_case), class_="big")
    warning = _WARNINGS.get(verdict.kind)
    worst, clean = (text.interval(*found.interval(label)) for label in (WORST, CLEAN))
    return tag(
        "article",
        tag("h3", run.name),
        tag("p", star, class_="standing") if standing else None,
        tag("p", number, class_="number"),
        None if warning is None else _distrust(verdict.kind, warning),
        tag("p", tag("b", "robust accuracy"), ", worst case of all attacks", class_="what"),
        tag("p", f"95% interval {worst}%", class_="interval"),
        _ruler(found) if run.bracket is None else _both_sides(run.bracket),
        tag("p", tag("b", text.percent(found.accuracy(CLEAN))), f" clean, {clean}%"),
        tag("p", tag("span", "Verdict on the measurement ", class_="small"), badge, class_="judgment"),
        tag("p", verdict.reason, class_="reason"),
        *(tag("p", f"! {note}", class_="note") for note in found.notes),
        tag("p", f"{len(found)} images of {found.data}, ", whole(found.threat), class_="small"),
        # The color follows the accuracy alone; the verdict, whatever it is, has its own.
        style=f"--share:{found.worst_case:.3f}",
        class_="card masked" if verdict.is_masked else "card toned",
        data_run=place,
    )


def _distrust(kind: Kind, warning: str) -> Html:
    return tag("p", tag("strong", f"{SIGNS[kind]} {warning}"), class_=f"distrust {kind}")


def _ruler(found: Assessment) -> Html:
    """Draw both accuracies on a line from 0 to 100%, the worst case with its interval."""
    low, high = found.interval(WORST)
    return _line(range=(low, high), dot=found.worst_case, tick=found.accuracy(CLEAN))


def _both_sides(found: Bracket) -> Html:
    """Draw what is certified, what attacks have left and the unknown between them, and tell their numbers."""
    parts = {"proved": (0.0, found.certified), "open": (found.certified, found.attacked)}
    sides = (
        tag("b", text.percent(found.certified)),
        f" certified ({found.method}) to ",
        tag("b", text.percent(found.attacked)),
        f" under attack, {found.examples} images",
    )
    return join(_line(**parts, dot=found.attacked, tick=found.clean), tag("p", *sides, class_="sides"))


def _line(**parts: float | tuple[float, float]) -> Html:
    """Draw parts of a line from 0 to 100%: a share is a place, two are the ends of a piece."""
    drawn = []
    for name, part in parts.items():
        low, high = part if isinstance(part, tuple) else (part, part)
        width = f";width:{100 * (high - low):.1f}%" if isinstance(part, tuple) else ""
        drawn.append(tag("span", class_=name, style=f"left:{100 * low:.1f}%{width}"))
    return tag("div", *drawn, class_="ruler", aria_hidden="true")


def _legend(runs: Sequence[RunContent]) -> Html:
    """Draw a legend of the parts of the lines, as far as some line has them, and of their color."""
    words = {"dot": "robust accuracy on a line from 0 to 100%"}
    if any(run.bracket is None for run in runs):
        words["range"] = "its 95% interval"
    words["tick"] = "clean accuracy"
    if any(run.bracket for run in runs):
        words |= {"proved": "certified: no attack succeeds", "open": "neither certified nor broken"}
    words["scale"] = "color of robust accuracy, from 0 to 100%"
    keys = [
        tag("li", tag("span", tag("span", class_=name), class_="ruler", aria_hidden="true"), f" {meaning}")
        for name, meaning in words.items()
    ]
    return tag("ul", *keys, class_="keys small", aria_label="Legend of the lines")
