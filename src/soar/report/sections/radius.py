"""Accuracy against eps: the smallest radius at which each example is misclassified under each attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from soar import epsilon
from soar.attacks import Attack
from soar.evaluation import Certificate
from soar.evaluation.compare import rows_in_common
from soar.evaluation.interval import share_of, wilson
from soar.evaluation.target import Target
from soar.progress import Progress
from soar.report.drawing.charts import line_chart
from soar.report.drawing.lines import ChartLine
from soar.report.markup import Child, Html, chart, distrusted, section, tag
from soar.threat import Linf, Threat

if TYPE_CHECKING:
    from soar.report.content import RunContent

FACTORS = tuple(Fraction(quarters, 4) for quarters in range(1, 9))
"""radii in units of eps"""
_UNKNOWN = (
    "Certified images withstand every attack, so the robust accuracy lies in the shaded area. Both sides are"
    " measured at the points; the lines only connect them."
)


def threats(threat: Threat) -> list[Threat]:
    """Return the threats from a quarter of eps to twice eps; linf ends at 1, where every image is allowed.

    >>> [str(one) for one in threats(Linf("0.8"))]
    ['linf 0.2', 'linf 0.4', 'linf 0.6', 'linf 0.8', 'linf 1']
    """
    sizes = [threat.eps * factor for factor in FACTORS]
    if isinstance(threat, Linf):
        sizes = sorted({min(size, Fraction(1)) for size in sizes})
    return [replace(threat, eps=size) for size in sizes]


def breaking_radii(target: Target, attack: Attack[Any]) -> tuple[int, ...]:
    """Attack within growing radii and return the first at which each example is misclassified.

    A point inside a ball is inside every larger ball, so an example that breaks is not attacked within a
    larger one: accuracy falls with eps whatever an attack does, and most passes are saved.

    Args:
        target: the model, its examples and the threat whose eps is in the middle
        attack: it is run alone

    Returns:
        For each example a position among the radii: 0 if it is misclassified without an attack, then those
        of `threats`, and one more if it never breaks.
    """
    balls, count = threats(target.threat), len(target)
    at = torch.where(target.correct, len(balls) + 1, 0)
    with Progress(len(balls) * count, "accuracy against eps", target.progress) as progress:
        for position, ball in enumerate(balls, 1):
            rows = (at > len(balls)).nonzero()[:, 0]
            outcomes = target.attack(attack, threat=ball, rows=rows)
            at[rows[~outcomes.robust.cpu()]] = position
            progress.advance(count, attack=attack.label, eps=str(ball))
    return tuple(at.tolist())


def accuracy_curves(breaks: dict[str, tuple[int, ...]], threat: Threat) -> tuple[ChartLine, ...]:
    """Return the accuracy within each radius, with its 95% interval.

    Args:
        breaks: the breaking radii under each attack
        threat: the threat whose eps is in the middle
    """
    x = (0.0, *(ball.radius for ball in threats(threat)))
    curves = []
    for label, at in breaks.items():
        robust = [sum(position > radius for position in at) for radius in range(len(x))]
        low, high = zip(*(wilson(count, len(at)) for count in robust), strict=True)
        y = tuple(count / max(1, len(at)) for count in robust)
        curves.append(ChartLine(label=label, x=x, y=y, low=low, high=high))
    return tuple(curves)


def bracket_curves(
    worst: tuple[int, ...], target: Target, certificates: Sequence[Certificate]
) -> tuple[tuple[ChartLine, ...], int]:
    """Return accuracy under attack and certified accuracy, on the images that all of them know.

    Args:
        worst: the breaking radii under all attacks
        target: what was attacked
        certificates: of its model, the smallest radius first

    Returns:
        Two curves without intervals, none without certificates or images in common; and how many images.
    """
    index = target.index.cpu()
    for one in certificates:
        index = index[rows_in_common(index, one.index)[0]]
    if not certificates or not len(index):
        return (), 0
    rows = rows_in_common(index, target.index.cpu())[1]
    (attacked,) = accuracy_curves({"attacked": tuple(worst[row] for row in rows.tolist())}, target.threat)
    shares = [share_of(one.certified[rows_in_common(index, one.index)[1]]) for one in certificates]
    proved = ChartLine(
        label=f"certified ({', '.join(dict.fromkeys(one.method for one in certificates))})",
        x=(0.0, *(one.threat.radius for one in certificates)),
        y=(attacked.y[0], *shares),
    )
    return (ChartLine(label="attacked", x=attacked.x, y=attacked.y), proved), len(index)


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw accuracy against eps: both sides where they are known, all runs, then every attack of each run."""
    charts = [_by_attack(place, run) for place, run in enumerate(runs)]
    charts[:0] = [_bracket(place, run) for place, run in enumerate(runs) if run.bracket_by_eps]
    if len(runs) > 1 and len({run.assessment.threat.norm_name for run in runs}) == 1:
        charts.insert(0, _worst_cases(runs))
    return section(
        "radius",
        "Accuracy against eps",
        distrusted(runs),
        _images(runs),
        tag("div", *charts, class_="charts"),
        tag("p", _UNKNOWN, class_="small") if any(run.bracket_by_eps for run in runs) else None,
        lead="A sound curve falls steadily and reaches 0% once the radius is large enough. A curve that"
        " stays up shows that the attack failed, not that the model is robust.",
    )


def _images(runs: Sequence[RunContent]) -> Html:
    """Return on how many images the curves are, and where these are not the images of the results above."""
    counts = sorted({run.curve_examples for run in runs})
    results = sorted({len(run.assessment) for run in runs})
    told: list[Child] = [f"Curves are on {_counted(counts)}, under the attacks in their legends"]
    told.append("; bands are 95% intervals.")
    if results != counts:
        told += [f" The results above are on {_counted(results)}; to draw curves on as many: "]
        told += [tag("code", f"soar report --examples {results[-1]}"), "."]
    for run in runs:
        if run.bracket_by_eps and run.bracket_examples != run.curve_examples:
            told.append(
                f" {run.name} was certified on {run.bracket_examples} of its {run.curve_examples} images."
            )
    return tag("p", *told, class_="small")


def _counted(counts: Sequence[int]) -> str:
    return f"{' or '.join(map(str, counts))} images"


def _by_attack(place: int, run: RunContent) -> Html:
    verdict = run.verdict
    title = f"{run.name}: {verdict.text}, not to be trusted" if verdict.is_masked else run.name
    strong = run.accuracy_by_eps[-1].label
    drawn = _chart(run, run.accuracy_by_eps, title, [run.curve_examples], is_marked=True, strong=strong)
    return chart(drawn, verdict.kind, run=place)


def _bracket(place: int, run: RunContent) -> Html:
    """Draw both sides on the images that both know, which may be fewer than those of the other curves."""
    title, counts = f"{run.name}: certified and attacked", [run.bracket_examples]
    drawn = _chart(run, run.bracket_by_eps, title, counts, is_marked=True, between="unknown")
    return chart(drawn, run.verdict.kind, run=place)


def _worst_cases(runs: Sequence[RunContent]) -> Html:
    curves = [replace(run.accuracy_by_eps[-1], label=run.legend) for run in runs]
    is_marked = len({run.assessment.threat for run in runs}) == 1
    counts = sorted({run.curve_examples for run in runs})
    title = "Worst case of all attacks"
    return chart(_chart(runs[0], curves, title, counts, is_marked=is_marked, by_run=True))


def _chart(
    run: RunContent,
    curves: Sequence[ChartLine],
    title: str,
    counts: Sequence[int],
    *,
    is_marked: bool,
    strong: str | None = None,
    between: str = "",
    by_run: bool = False,
) -> str:
    threat, largest = run.assessment.threat, max(x for curve in curves for x in curve.x)
    radii = [factor * threat.eps for factor in (1, 2, 4, 8) if factor * threat.eps <= largest]
    return line_chart(
        curves,
        title=title,
        x_label=f"eps ({threat.norm_name})",
        y_label=f"accuracy on {_counted(counts)}",
        percent=True,
        x_ticks=[(0.0, "0"), *((float(eps), epsilon.show(eps)) for eps in radii)],
        marked=threat.radius if is_marked else None,
        strong=strong,
        between=between,
        by_run=by_run,
    )
