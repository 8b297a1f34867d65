"""What SECURITY.md promises about reading files, looked for in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "soar"
FORBIDDEN = ("pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle")
NEEDED = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}


def problems(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
            yield from (f"imports {name}" for name in modules if (name or "").split(".")[0] in FORBIDDEN)
        if isinstance(node, ast.Call):
            yield from _of_call(node)


def _of_call(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func)
    if name in ("eval", "exec"):
        yield f"calls {name}"
    if name.replace("numpy.", "np.") in NEEDED:
        keyword, value = NEEDED[name.replace("numpy.", "np.")]
        given = {item.arg: item.value for item in node.keywords}.get(keyword)
        if not isinstance(given, ast.Constant) or given.value is not value:
            yield f"calls {name} without {keyword}={value}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_in_the_source_unpickles_or_runs_text(path: Path) -> None:
    assert [*problems(path.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "eval(text)",
    ],
)
def test_what_must_not_be_there_would_be_found(source: str) -> None:
    assert len([*problems(source)]) == 1
