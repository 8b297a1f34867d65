r"""Formulas, written \( like this \), become MathML: browsers set it by themselves, without a script."""

from __future__ import annotations

import html
import re

FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*(?:\\\((.+?)\\\)|\\\[(.+?)\\\])\s*</\1>', re.DOTALL)


def as_mathml(page: str) -> str:
    r"""Translate the formulas of a page.

    >>> "<mi>&#x003C1;</mi>" in as_mathml(r'<span class="arithmatex">\(\rho\)</span>')
    True
    """
    return FORMULA.sub(_translated, page)


def _translated(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    inline, block = match[2], match[3]
    # The two bars of a norm are one sign, as far from what they enclose as a bracket.
    text = html.unescape(inline or block).replace("||", r"\Vert ")
    set_formula: str = convert(text, display="inline" if inline else "block")
    return set_formula
