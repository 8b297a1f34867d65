"""HTML in which text is escaped unless it says that it is HTML."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_VOID = frozenset({"br", "img", "input", "link", "meta"})


class Html(str):
    """Text that is HTML already and is put into a page as it stands."""

    __slots__ = ()


Child = str | int | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Write an element; plain text in it is escaped, `Html` is not.

    Args:
        name: the element's name
        children: its content; None is left out
        attributes: a trailing underscore is dropped, others become hyphens; True stands alone, False and None
            are left out

    >>> tag("p", "1 < 2", tag("b", "yes"), class_="note", data_x=1, hidden=True)
    '<p class="note" data-x="1" hidden>1 &lt; 2<b>yes</b></p>'
    """
    inside = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{inside}>")
    return Html(f"<{name}{inside}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Put pieces of a page behind one another."""
    return Html("".join(_text(child) for child in children if child is not None))


def embedded(value: Any, **attributes: Attribute) -> Html:
    r"""Write plain values as JSON that a script of the page reads; no text in it can end the element.

    >>> embedded({"name": "</script>"})
    '<script type="application/json">{"name":"\\u003c/script>"}</script>'
    """
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return tag("script", Html(text), type="application/json", **attributes)


def _text(child: str | int) -> str:
    return child if isinstance(child, Html) else escape(str(child))


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
