"""HTML whose text is escaped, and the building blocks of all sections: panels, tables, bars, verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from soar.evaluation.diagnosis import Verdict
from soar.evaluation.table import MEANING
from soar.threat import Threat

if TYPE_CHECKING:
    from soar.report.content import RunContent

Kind = Verdict | Literal["unknown"]
SIGNS: dict[Kind, str] = {"sound": "✓", "inconclusive": "~", "suspicious": "!", "masked": "✗", "unknown": "?"}
DISTRUST = f"Not to be trusted: {MEANING['masked']}."
_VOID = frozenset({"br", "img", "input", "link", "meta"})


class Html(str):
    """Text that is HTML already and is put into a page as it is."""

    __slots__ = ()


Child = str | int | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element; plain text in it is escaped, `Html` is not.

    Args:
        name: the element's name
        children: its content; None is left out
        attributes: a trailing underscore is dropped, others become hyphens; True becomes an attribute without
            a value, False and None are left out

    >>> tag("p", "1 < 2", tag("b", "yes"), class_="note", data_x=1, hidden=True)
    '<p class="note" data-x="1" hidden>1 &lt; 2<b>yes</b></p>'
    """
    inside = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{inside}>")
    return Html(f"<{name}{inside}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Concatenate pieces of a page, escaping plain text."""
    texts = (c if isinstance(c, Html) else escape(str(c)) for c in children if c is not None)
    return Html("".join(texts))


def embedded(value: Any, **attributes: Attribute) -> Html:
    r"""Return plain values as JSON for a script of the page; no text in it can end the element.

    >>> embedded({"name": "</script>"})
    '<script type="application/json">{"name":"\\u003c/script>"}</script>'
    """
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(text), type="application/json", **attributes)


def section(name: str, title: str, *content: Child, lead: Child = None) -> Html:
    """Return a section of the page, which can be folded up.

    Args:
        name: its place in addresses, such as "gallery"
        title: its heading
        content: what it holds
        lead: a sentence or two under the heading on how to read it
    """
    heading = tag("h2", title, id=f"{name}-title")
    opening = None if lead is None else tag("p", lead, class_="lead")
    folded = tag("details", tag("summary", heading), opening, *content, class_="fold", open=True)
    return tag("section", folded, id=name, aria_labelledby=f"{name}-title")


def missing(*text: Child) -> Html:
    """Return a note on something that was not measured, and how to get it."""
    return tag("p", *text, class_="missing")


def whole(threat: Threat) -> Html:
    """Return a threat, whose norm and eps stay on one line."""
    return tag("span", str(threat), class_="whole")


def mark(kind: Kind, text: str) -> Html:
    """Return a verdict with its sign, so that the color is not the only difference."""
    sign = tag("span", SIGNS[kind], class_="sign", aria_hidden="true")
    return tag("span", sign, " ", text, class_=f"verdict {kind}")


def distrusted(runs: Sequence[RunContent]) -> Html | None:
    """Return a warning for a table or chart that shows masked runs."""
    names = [run.name for run in runs if run.verdict.is_masked]
    if not names:
        return None
    return tag("p", tag("strong", f"✗ {', '.join(names)}: "), DISTRUST, class_="alarm small")


def panels(name: str, runs: Sequence[RunContent], draw: Callable[[int, RunContent], Html]) -> Html:
    """Draw one panel per run: behind tabs where scripts run, below one another on paper and without scripts.

    Args:
        name: the section's name
        runs: one or more
        draw: draws the panel of the run at a position
    """
    made = []
    for place, run in enumerate(runs):
        heading = tag("h3", run.name, " ", mark(run.verdict.kind, run.verdict.text), class_="panel-title")
        found = draw(place, run)
        made.append(tag("div", heading, found, class_="panel", id=f"{name}-run-{place}", data_run=place))
    # The heading of a single run would repeat what the reader knows; it is kept for screen readers.
    kind = "panels" if len(runs) > 1 else "single"
    return tag("div", *made, class_=kind, data_label=f"Run shown under {name}")


def table(
    head: Html,
    rows: Sequence[Html],
    *,
    caption: str,
    foot: Html | None = None,
    kind: str = "",
    below: Html | None = None,
) -> Html:
    """Return a table that can be sorted, and that scrolls by itself where the screen is narrow.

    Args:
        head: rows of headings; those that sort have the class "sorts"
        rows: the body
        caption: what it shows
        foot: rows that stay at the end however the rest is sorted
        kind: further classes
        below: what stands under it, such as a link that saves it
    """
    made = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", head),
        tag("tbody", *rows),
        None if foot is None else tag("tfoot", foot),
        class_=f"sortable {kind}".strip(),
    )
    scroll = tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return tag("div", scroll, below, class_="tabled")


def heading(text: Child, *, kind: str = "", **attributes: str | int) -> Html:
    """Return the heading of a column by which the table can be sorted."""
    return tag("th", text, scope="col", class_=f"sorts {kind}".strip(), **attributes)


def cell(
    text: Child,
    *,
    sort: float | str | None = None,
    kind: str | None = None,
    under: str | None = None,
    run: int | None = None,
) -> Html:
    """Return a cell of a table.

    Args:
        text: its content
        sort: the key for sorting
        kind: further classes
        under: its heading, repeated beside it where a phone shows a row as a list
        run: the position of the run that it belongs to, with which it is hidden
    """
    return tag("td", text, data_sort=sort, class_=kind, data_under=under, data_run=run)


def row(name: str, *cells: Html, label: Child = None, run: int | None = None) -> Html:
    """Return a row of a table that begins with a name.

    Args:
        name: by which the table is sorted
        cells: the others
        label: what to show in place of the name
        run: the position of the run that it belongs to, with which it is hidden
    """
    return tag("tr", tag("th", label or name, scope="row", data_sort=name), *cells, data_run=run)


def bar(share: float, kind: str = "") -> Html:
    """Draw a share as a bar."""
    share = min(1.0, max(0.0, share))
    style = f"width:{100 * share:.1f}%;--share:{share:.3f}"
    return tag("span", tag("span", style=style), class_=f"bar {kind}".strip(), aria_hidden="true")


def chart(drawing: str, kind: str = "", *, run: int | None = None) -> Html:
    """Return an SVG chart in a figure, hidden with a run if it shows only that one."""
    return tag("figure", Html(drawing), class_=f"chart {kind}".strip(), data_run=run)


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
