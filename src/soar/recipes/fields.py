"""What every field of a recipe means, taken from the text under it in the source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING
from itertools import pairwise
from typing import Any

from soar.recipes.recipe import SECTIONS, Recipe


def help_text() -> str:
    """List every field with its default and its meaning, for `soar train --help`.

    >>> "  --training.epochs               How often every training example is seen." in help_text()
    True
    """
    lines = ["fields of a recipe, each a flag; training, threat and data fields also by their last name:"]
    lines += _describe("", {"seed": Recipe})
    for section, kind in SECTIONS.items():
        lines += _describe(f"{section}.", dict.fromkeys(kind.__dataclass_fields__, kind))
    lines.append("  --model NAME, --objective NAME and their options, such as --objective.steps 10:")
    lines.append("      see `soar list models` and `soar list objectives`")
    return "\n".join(lines)


def _describe(prefix: str, owners: dict[str, Any]) -> list[str]:
    lines = []
    for name, kind in owners.items():
        default = kind.__dataclass_fields__[name].default
        shown = "" if default is MISSING or default is None else f" (default {default})"
        wrapped = textwrap.wrap(documents(kind).get(name, "") + shown, 66)
        lines.append(f"  --{prefix}{name:<{30 - len(prefix)}}" + wrapped[0])
        lines += [" " * 34 + line for line in wrapped[1:]]
    return lines


def documents(kind: Any) -> dict[str, str]:
    """Read the first line of text under each field of a class.

    >>> documents(Recipe)["description"]
    'One line for `soar list recipes`.'
    """
    (body,) = [
        node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)
    ]
    found = {}
    for field, text in pairwise(body):
        is_documented = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_documented:
            found[field.target.id] = str(text.value.value).strip().split("\n")[0]  # type: ignore[attr-defined]
    return found
