"""What SECURITY.md promises about reading files, looked for in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "soar"
FORBIDDEN = ("pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle")
NEEDED = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "np.lib.format.read_array": ("allow_pickle", False),
}
# Modules that open connections, and those of this package that may use them.
NETWORK = ("urllib.request", "http.client", "socket", "ftplib", "requests", "ssl")
USES_NETWORK = ("data/download.py", "experiments/cluster.py")


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


def imported(source: str) -> set[str]:
    nodes = [*ast.walk(ast.parse(source))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_only_fetching_and_clusters_use_the_network() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if imported(path.read_text()) & set(NETWORK)
    }
    assert found == set(USES_NETWORK)


def test_pictures_are_opened_only_as_formats_that_start_no_program() -> None:
    opened = [
        (path.name, {item.arg for item in node.keywords})
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Image.open"
    ]
    assert opened and all("formats" in keywords for _, keywords in opened)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "np.lib.format.read_array(stream)",
        "eval(text)",
    ],
)
def test_what_must_not_be_there_would_be_found(source: str) -> None:
    assert len([*problems(source)]) == 1
