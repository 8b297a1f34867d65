"""Read drawings: what every SVG of the report must be, and where its parts are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from soar.report.drawing.svg import width

SVG = "{http://www.w3.org/2000/svg}"


def parsed(drawing: str) -> ElementTree.Element:
    """Parse a drawing, and check what holds for all of them."""
    root = ElementTree.fromstring(drawing)
    assert root.tag == SVG + "svg" and root.get("role") == "img"
    assert [child.tag for child in root[:2]] == [SVG + "title", SVG + "desc"] and root[1].text
    for one in root.iter():
        assert one.tag != SVG + "script" and "id" not in one.attrib
        assert not [name for name in one.attrib if name.startswith("on")]
        assert one.get("href", "data:").startswith("data:")
    check_inside(root)
    return root


def check_inside(root: ElementTree.Element) -> None:
    """All absolute places and all words, as wide as they are guessed to be, lie inside the image."""
    _, _, wide, high = map(float, root.get("viewBox", "").split())
    assert (wide, high) < (1000, 1000)
    for x, y in places(root):
        assert 0 <= x <= wide and 0 <= y <= high
    for left, right, base in words_at(root):
        assert left >= -0.2 and right <= wide + 0.2 and 0 < base < high


def places(root: ElementTree.Element) -> Iterator[tuple[float, float]]:
    """Give the places that paths go through, outside the legend."""
    for group in root:
        if "translate" in group.get("transform", ""):
            continue
        for path in group.iter(SVG + "path"):
            for x, y in re.findall(r"[ML](\S+?) (-?[\d.]+)", path.get("d", "")):
                yield float(x), float(y)


def words_at(root: ElementTree.Element) -> Iterator[tuple[float, float, float]]:
    """Give the left and the right end of each text that is not turned, and its base line."""
    for group in root:
        at = re.search(r"translate\((\S+) (\S+)\)", group.get("transform", ""))
        moved, down = (float(at[1]), float(at[2])) if at else (0.0, 0.0)
        for one in group.iter(SVG + "text"):
            if "rotate" in one.get("transform", ""):
                continue
            size = width(one.text or "", float(one.get("font-size", "")))
            share = {"start": 0.0, "middle": 0.5, "end": 1.0}[one.get("text-anchor", "start")]
            left = moved + float(one.get("x", "")) - share * size
            yield left, left + size, down + float(one.get("y", ""))


def texts(root: ElementTree.Element) -> list[str]:
    """Give all words that are seen."""
    return [one.text or "" for one in root.iter(SVG + "text")]


def tooltips(root: ElementTree.Element) -> list[str]:
    """Give what parts of the drawing say when pointed at."""
    return [one.text or "" for one in root.iter(SVG + "title")][1:]
