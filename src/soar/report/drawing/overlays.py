"""What is drawn on a map: the boundary, what the threat allows, the image and the attack's end.

All of it is dark with a light outline, to be seen on any color and in both themes.
"""

from __future__ import annotations

from soar.report.drawing.contours import chains, contour
from soar.report.drawing.grids import Grid
from soar.report.drawing.scales import Axis
from soar.report.drawing.svg import coordinate

_IMAGE = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"
_CROSS = "m-4-4l8 8m0-8l-8 8"


def overlay(x: Axis, y: Axis, margin: Grid) -> list[str]:
    """Draw on a map what is known of its places.

    Args:
        x: positions along the attack
        y: positions along the other direction
        margin: the margin there, which is 0 on the boundary
    """

    def place(column: float, row: float) -> str:
        return f"{coordinate(x.at(column))} {coordinate(y.at(row))}"

    parts = []
    if x.low <= -1 and x.high >= 1:
        parts.append(_box("M" + "L".join(place(*one) for one in ((-1, -1), (1, -1), (1, 1), (-1, 1))) + "z"))
    crossed = chains(contour(margin.along, margin.values.tolist()))
    if crossed:
        parts.append(_stroke("".join("M" + "L".join(place(*one) for one in chain) for chain in crossed), 2))
    if x.low <= 0 <= x.high:
        parts.append(_dot(f"M{place(0, 0)}{_IMAGE}", "the image"))
    if x.low <= 0 and x.high >= 1:
        parts.append(_stroke(f"M{place(1, 0)}{_CROSS}", 2.4, "the attack's end"))
    return parts


def keys() -> list[tuple[str, str]]:
    """Explain the signs, for a legend."""
    return [
        ("image", _dot(f"M13-4{_IMAGE}", "")),
        ("attack's end", _stroke(f"M13-4{_CROSS}", 2.4)),
        ("the answer changes", _stroke("M1-4h24", 2)),
        ("eps", _box("M6-10h14v12h-14z")),
    ]


def _titled(name: str) -> str:
    return f"<title>{name}</title>" if name else ""


def _dot(path: str, name: str) -> str:
    return f'<path d="{path}" fill="#111" stroke="#fff" stroke-width="1.6">{_titled(name)}</path>'


def _stroke(path: str, thick: float, name: str = "") -> str:
    return (
        f'<g fill="none" stroke-linecap="round" stroke-linejoin="round">{_titled(name)}'
        f'<path d="{path}" stroke="#fff" stroke-width="{thick + 2.4:g}"/>'
        f'<path d="{path}" stroke="#111" stroke-width="{thick:g}"/></g>'
    )


def _box(path: str) -> str:
    return (
        f'<g fill="none" stroke-width="1.4"><path d="{path}" stroke="#fff" opacity=".8"/>'
        f'<path d="{path}" stroke="#111" stroke-dasharray="5 4"/></g>'
    )
