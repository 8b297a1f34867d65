"""The loss around an image, which shows masking to the eye."""

from __future__ import annotations

from collections.abc import Sequence

from soar.report.content import RunContent, standing
from soar.report.drawing.data import Surface
from soar.report.drawing.surfaces import Values, surface
from soar.report.markup import Html, join, tag
from soar.report.sections.layout import mark, missing, section

_TITLES: dict[Values, str] = {"margin": "Margin", "loss": "Loss"}
_LESSON = (
    "The image is in the middle, the attack to the right of it, a random direction of the same size above."
    " In a sound network the margin falls smoothly towards the attack and hardly changes along the random"
    " direction: the gradient shows the way. Three signs of masking: the loss is a flat plain around the"
    " image while the margin has slopes (the softmax is saturated, and attacks on the cross-entropy are"
    " blind); the surface is a patchwork of cliffs; or the random direction does as much harm as the attack."
    " Colors have a scale of their own in every picture."
)


def slices(runs: Sequence[RunContent]) -> Html:
    """Show the surfaces of all runs side by side, example by example."""
    known = [run for run in runs if run.surfaces]
    indices = sorted({one.index for run in known for one in run.surfaces})
    without = [run.name for run in runs if not run.surfaces]
    how = missing(f"No surface of {', '.join(without)}: make the report again with the run's model and data.")
    return section(
        "surfaces",
        "The loss around an image",
        *(_example(index, known) for index in indices),
        how if without else None,
        lead=_LESSON if known else None,
    )


def _example(index: int, runs: Sequence[RunContent]) -> Html:
    """Draw the surfaces of all runs around one image.

    Each has its own scale: margins of masked networks are often so large that others would look flat beside.
    """
    found = [(run, one) for run in runs for one in run.surfaces if one.index == index]
    label = found[0][0].classes[found[0][1].label]
    drawn = [_pair(run, one) for run, one in found]
    return join(tag("h3", f"Example {index}: {label}"), tag("div", *drawn, class_="slices"))


def _pair(run: RunContent, one: Surface) -> Html:
    """Draw margin and loss of one run beside each other."""
    planes = [
        tag("div", Html(surface(one, values=values, title=title)), class_="plane")
        for values, title in _TITLES.items()
    ]
    return tag(
        "figure", tag("figcaption", tag("b", run.name), " ", mark(standing(run))), *planes, class_="pair"
    )
