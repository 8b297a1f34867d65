"""What all sections are made of: headings, cards, panels of one run each, tables that sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from soar.report.content import RunContent, Standing, standing
from soar.report.markup import Child, Html, join, tag


def section(name: str, title: str, *content: Child, lead: Child = None) -> Html:
    """Make a section of the page.

    Args:
        name: its place in addresses, such as "gallery"
        title: its heading
        content: what it holds
        lead: a sentence or two under the heading that say how to read it
    """
    heading = tag("h2", title, id=f"{name}-title")
    opening = None if lead is None else tag("p", lead, class_="lead")
    return tag("section", heading, opening, *content, id=name, aria_labelledby=f"{name}-title")


def missing(*text: Child) -> Html:
    """Say that a part was not measured, and how to get it."""
    return tag("p", *text, class_="missing")


def code(text: str) -> Html:
    """Write something to type."""
    return tag("code", text)


def mark(found: Standing) -> Html:
    """Write a verdict with its sign and color."""
    sign = tag("span", found.sign, class_="sign", aria_hidden="true")
    return tag("span", sign, " ", found.word, class_=f"verdict {found.kind}")


def panels(name: str, runs: Sequence[RunContent], show: Callable[[int, RunContent], Html]) -> Html:
    """Show one panel a run: behind tabs where scripts run, one below the other on paper and without scripts.

    Args:
        name: the section's name
        runs: one or more
        show: draws the panel of the run at a place
    """
    made = []
    for place, run in enumerate(runs):
        heading = tag("h3", run.name, " ", mark(standing(run)), class_="panel-title")
        made.append(tag("div", heading, show(place, run), class_="panel", id=f"{name}-run-{place}"))
    # The heading of a single run would repeat what the reader knows; it is kept for those who listen.
    kind = "panels" if len(runs) > 1 else "single"
    return tag("div", *made, class_=kind, data_label=f"Run shown under {name}")


def cell(text: Child, *, sort: float | str | None = None, kind: str | None = None) -> Html:
    """Make a cell of a table; `sort` is what the table is ordered by."""
    return tag("td", text, data_sort=sort, class_=kind)


def table(
    head: Html, rows: Sequence[Html], *, caption: str, foot: Html | None = None, kind: str = ""
) -> Html:
    """Make a table that sorts and that scrolls by itself where the screen is narrow.

    Args:
        head: rows of headings; those that sort have the class "sorts"
        rows: the body
        caption: what it shows
        foot: rows that stay at the end however the rest is sorted
        kind: further classes
    """
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", *rows),
        None if foot is None else tag("tfoot", foot),
        class_=f"sortable {kind}".strip(),
    )
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def heading(text: Child, *, kind: str = "", **attributes: str | int) -> Html:
    """Make a column's heading by which the table sorts."""
    return tag("th", text, scope="col", class_=f"sorts {kind}".strip(), **attributes)


def chart(drawing: str, kind: str = "") -> Html:
    """Frame an SVG chart."""
    return tag("figure", Html(drawing), class_=f"chart {kind}".strip())


def labeled(run: RunContent) -> str:
    """Name a run in a legend, with a warning where it is masked."""
    return f"{run.name} (masked)" if standing(run).is_masked else run.name


def bar(share: float, kind: str = "") -> Html:
    """Draw a share as a bar."""
    width = f"width:{100 * min(1.0, max(0.0, share)):.1f}%"
    return tag("span", tag("span", style=width), class_=f"bar {kind}".strip(), aria_hidden="true")


def definitions(pairs: Sequence[tuple[Child, Child]]) -> Html:
    """List names with what they stand for."""
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs))
