"""The paper's theory as tables of numbers; in a clone, `python -m tools.theory` prints and draws them."""

from __future__ import annotations

from typing import Any

Rows = list[dict[str, Any]]
"""a table: one dictionary per row, with the columns in order"""
