"""The report as a single HTML file that loads nothing from elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources

from soar import __version__
from soar.report.content import RunContent
from soar.report.drawing.charts import PALETTE
from soar.report.drawing.lines import series
from soar.report.markup import Html, tag, whole
from soar.report.sections import (
    attacks,
    classes,
    corruptions,
    diagnosis,
    gallery,
    headline,
    provenance,
    radius,
    surfaces,
    training,
)

_SECTIONS = {
    "headline": ("Results", headline.draw),
    "diagnosis": ("Trust", diagnosis.draw),
    "attacks": ("Attacks", attacks.draw),
    "radius": ("Radius", radius.draw),
    "gallery": ("Gallery", gallery.draw),
    "surfaces": ("Loss surface", surfaces.draw),
    "classes": ("Classes", classes.draw),
    "corruptions": ("Corruptions", corruptions.draw),
    "training": ("Training", training.draw),
    "cost": ("Cost", attacks.draw_cost),
    "provenance": ("Reproduce", provenance.draw),
}
# A shield, included because browsers ask the server for an icon that a page does not have.
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M8 1l6 2v5c0 4-3 6-6 7-3-1-6-3-6-7V3z' fill='%230b62a8'/%3E%3C/svg%3E"
)


def page(runs: Sequence[RunContent], *, title: str = "Robustness report") -> str:
    """Return the whole page.

    Args:
        runs: what to show, side by side; differences are to the first
        title: its heading
    """
    script = _asset("page.js")
    body = tag(
        "body",
        tag("a", "Skip to the results", href="#headline", class_="skip"),
        _masthead(runs, title),
        tag("main", *(draw(runs) for _, draw in _SECTIONS.values())),
        tag("footer", f"Made by soar {__version__}. The file needs no network and can be shared."),
        tag("script", script),
    )
    return f"<!doctype html>\n{tag('html', _head(title, script), body, lang='en')}\n"


def _head(title: str, script: Html) -> Html:
    # With this the browser refuses to load anything from elsewhere, and to run any script but ours.
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="generator", content=f"soar report {__version__}"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href=_ICON),
        tag("style", _palette(), _asset("page.css")),
    )


def _masthead(runs: Sequence[RunContent], title: str) -> Html:
    tasks = dict.fromkeys((run.assessment.data, run.assessment.threat) for run in runs)
    parts = [piece for data, threat in tasks for piece in ("; ", f"{data}, ", whole(threat))][1:]
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    links = [
        tag("a", name, href=f"#{place}")
        for place, (name, _) in _SECTIONS.items()
        if place != "corruptions" or any(run.corruptions for run in runs)
    ]
    return tag(
        "header",
        tag(
            "div",
            tag("h1", title),
            tag("button", "Dark", type="button", id="theme", hidden=True),
            class_="top",
        ),
        tag("p", f"{count} on ", *parts, class_="lead"),
        tag("nav", *links, aria_label="Sections"),
        _chooser(runs) if len(runs) > 1 else None,
        class_="masthead",
    )


def _chooser(runs: Sequence[RunContent]) -> Html:
    """Draw a box to hide each run, with its color in charts of several runs; a script shows them."""
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", value=place, checked=True, autocomplete="off"),
            tag("span", class_="swatch", style=f"background:{series(place)}", aria_hidden="true"),
            run.name,
        )
        for place, run in enumerate(runs)
    ]
    return tag("fieldset", tag("legend", "Show"), *boxes, id="runs", hidden=True)


def _palette() -> Html:
    """Define the colors of the charts for both themes."""
    lines = (f"{name}:light-dark({light},{dark})" for name, (light, dark) in PALETTE.items())
    return Html(f":root{{{';'.join(lines)}}}\n")


def _asset(name: str) -> Html:
    return Html(resources.files("soar.report").joinpath("assets", name).read_text(encoding="utf-8"))
