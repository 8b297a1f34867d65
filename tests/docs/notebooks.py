"""Run the notebooks of examples/ cell by cell, as Jupyter does, without Jupyter.

python -m tests.docs.notebooks    runs them in a folder of its own and saves what they show
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from tests.docs.running import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def executed(path: Path) -> dict[str, Any]:
    """Return a notebook with the outputs of running its cells one after the other in the current folder."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    module = types.ModuleType(f"notebook_{path.stem}")
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _value("".join(cell["source"]), module.__dict__, f"{path.name}:{cell['id']}")
        cell["execution_count"], cell["outputs"] = count, []
        if text := printed.getvalue():
            stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
            cell["outputs"].append(stream)
        if value is not None:
            cell["outputs"].append(_shown(value, count))
    return notebook


def as_file(notebook: dict[str, Any]) -> str:
    """Return a notebook as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _value(code: str, names: dict[str, Any], where: str) -> Any:
    """Run a cell, and return the value of its last line if that is an expression."""
    tree = ast.parse(code, where)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, where, "exec"), names)
        return None
    tree.body.remove(last)
    exec(compile(tree, where, "exec"), names)
    return eval(compile(ast.Expression(last.value), where, "eval"), names)


def _shown(value: Any, count: int) -> dict[str, Any]:
    """Return a value in every form in which a notebook shows it, without memory addresses."""
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    data["text/plain"] = [re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))]
    return {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}


def main() -> None:
    """Run all notebooks and save their outputs."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            began = os.times()
            text = as_file(executed(path))
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {os.times().user - began.user:.0f} CPU seconds", file=sys.stderr)


if __name__ == "__main__":
    main()
