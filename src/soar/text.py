"""Format numbers for people, one format for each kind, and texts to a width."""

from __future__ import annotations

import textwrap

_NARROWEST = 24
_YEAR = 365.25 * 86_400


def percent(share: float) -> str:
    """Format a share of the whole.

    >>> percent(0.5625), percent(1)
    ('56.2%', '100.0%')
    """
    return f"{share:.1%}"


def interval(low: float, high: float) -> str:
    """Format the two ends of an interval of shares, in percent.

    >>> interval(0.1, 0.25)
    '10.0 to 25.0'
    """
    return f"{100 * low:.1f} to {100 * high:.1f}"


def points(difference: float) -> str:
    """Format a difference of two shares, in percentage points.

    >>> points(0.021), points(-0.5)
    ('+2.1', '-50.0')
    """
    return f"{100 * difference:+.1f}"


def duration(seconds: float) -> str:
    """Format a duration.

    >>> duration(0.42), duration(30), duration(95), duration(8_000), duration(400_000), duration(1e12)
    ('0.4 s', '30 s', '1:35 min', '2:13 h', '4.6 days', '31,688 years')
    """
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60}:{whole % 60:02} min"
    if whole < 48 * 3_600:
        minutes = round(seconds / 60)
        return f"{minutes // 60}:{minutes % 60:02} h"
    return f"{seconds / 86_400:.1f} days" if seconds < 2 * _YEAR else f"{seconds / _YEAR:,.0f} years"


def clock_time(seconds: float) -> str:
    """Format a running time as hours, minutes and seconds.

    >>> clock_time(3_725.4)
    '1:02:05'
    """
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def beside(label: str, text: str, *, left: int, width: int) -> str:
    """Return a label and a text on its right, wrapped between words; a word that is too long stays whole.

    Args:
        label: in a line of its own if it leaves no gap before the text
        text: one line of any length
        left: where the text begins
        width: how many characters fit into a line

    >>> print(beside("pgd", "Projected gradient ascent", left=6, width=30))
    pgd   Projected gradient
          ascent
    """
    room = max(width - left, _NARROWEST)
    lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    if len(label) >= left or not lines:
        lines = ["", *lines]
    return "\n".join(f"{label if k == 0 else '':<{left}}{line}".rstrip() for k, line in enumerate(lines))
