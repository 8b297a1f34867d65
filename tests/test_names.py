"""No two public classes of the package share a name, so that a name means one thing everywhere."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import soar

SOURCE = Path(soar.__file__).parent


def public_classes() -> dict[str, list[str]]:
    """Return the modules that define each public class, private modules excluded."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).with_suffix("")
        if any(part.startswith("_") and part != "__init__" for part in module.parts):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(".".join(module.parts))
    return found


def test_no_two_public_classes_share_a_name() -> None:
    classes = public_classes()
    assert len(classes) > 100
    shared = {name: modules for name, modules in classes.items() if len(modules) > 1}
    assert not shared
