"""Read a page back: its elements, their attributes and texts, as a browser would find them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import unquote

_VOID = {"br", "img", "input", "link", "meta"}


@dataclass
class Element:
    """An element with everything inside of it."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def all(self, name: str = "", kind: str = "") -> list[Element]:
        """Find the elements of a name and a class inside of this one."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if name in ("", child.name) and (not kind or kind in child.classes):
                    found.append(child)
                found += child.all(name, kind)
        return found

    def by_id(self, name: str) -> Element:
        (found,) = (one for one in self.all() if one.attributes.get("id") == name)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, dict(attrs))
        assert len(made.attributes) == len(attrs), f"an attribute of <{tag}> is given twice"
        self.open[-1].children.append(made)
        if tag not in _VOID:
            self.open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(html: str) -> Element:
    """Read HTML; elements must be closed in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].name}> is not closed"
    return reader.root


def saved(link: Element) -> list[list[str]]:
    """Read the rows of the CSV file that a link saves."""
    head, _, text = (link.attributes["href"] or "").partition(",")
    assert head == "data:text/csv;charset=utf-8" and (link.attributes["download"] or "").endswith(".csv")
    return list(csv.reader(io.StringIO(unquote(text), newline=""), strict=True))
