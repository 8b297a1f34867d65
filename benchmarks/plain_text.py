"""A printed table as plain text, for the record beside its numbers."""

from __future__ import annotations

import textwrap


def plain(text: str) -> str:
    """Take a table's margins away."""
    return textwrap.dedent("\n".join(line.rstrip() for line in text.splitlines())).strip() + "\n"
