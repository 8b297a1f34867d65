"""Lower layers never import higher ones, and no import goes in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import soar

ROOT = Path(soar.__file__).parent

# From the lowest layer to the highest. What a bar sets apart imports nothing of its neighbors.
LAYERS = {
    "base": "soar checkpoints distributed environment epsilon errors files imports locks options progress"
    " randomness registry shapes text values weights",
    "mathematics": "bounds curvature double_backward fuse geometry inputs losses model_state prediction"
    " threat",
    "data | models | attacks": "data | models | attacks",
    "objectives": "objectives",
    "recipes": "recipes",
    "runs": "runs",
    "training": "training",
    "cost | evaluation": "cost | evaluation",
    "report | interop | export": "report | interop | export",
    "experiments": "experiments theory",
    "cli": "cli __main__",
}
# Height, part of the layer, and name of the layer, by the first name below `soar`.
PLACES = {
    name: (height, part, layer)
    for height, (layer, parts) in enumerate(LAYERS.items())
    for part, names in enumerate(parts.split("|"))
    for name in names.split()
}


class Import(NamedTuple):
    """One module that another one imports."""

    source: str
    target: str
    line: int
    is_for_types: bool


def modules() -> dict[str, Path]:
    """Every module of the package by its full name."""
    return {
        ".".join(["soar", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in ROOT.rglob("*.py")
    }


def imports(module: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """What a module imports of this package, at its top, inside functions and for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for inner in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: write the import with its full name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            private = [name for name in names if name.startswith("soar") and re.search(r"\._[^_]", name)]
            assert not private, f"{module}, line {node.lineno}: imports {private[0]}, which is private"
            if node.module == "soar" and not {"soar.__version__", *known} >= set(names):
                raise AssertionError(f"{module}, line {node.lineno}: import names from their own modules")
            targets = [name if name in known else str(node.module) for name in names]
        else:
            continue
        for target in dict.fromkeys(targets):
            if target in known:
                yield Import(module, target, node.lineno, id(node) in for_types)


KNOWN = modules()
IMPORTS = [one for module, path in KNOWN.items() for one in imports(module, path, KNOWN)]


def part_of(module: str) -> str:
    """The name that decides the layer: `soar.attacks.pgd` belongs to `attacks`."""
    return module.split(".")[1] if "." in module else module


def fault(one: Import) -> str | None:
    """Why an import is not allowed, in one line."""
    (height, part, layer), (above, other, high) = PLACES[part_of(one.source)], PLACES[part_of(one.target)]
    if above > height:
        return f"{one.source}, line {one.line}: {layer} imports {one.target} of the higher layer {high}"
    if above == height and part != other:
        return f"{one.source}, line {one.line}: imports {one.target}, which stands beside it in {layer}"
    return None


def test_every_module_has_a_layer() -> None:
    parts = {part_of(module) for module in KNOWN}
    assert not parts - set(PLACES), "name these in LAYERS"
    assert not set(PLACES) - parts, "LAYERS names what does not exist"


def test_contributors_are_told_of_every_layer() -> None:
    told = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert " -> ".join(LAYERS) in " ".join(told.split())


def test_no_layer_imports_a_higher_one() -> None:
    # The package itself shows names of all layers, and imports them when they are first used.
    faults = [fault(one) for one in IMPORTS if one.source != "soar"]
    assert not list(filter(None, faults)), "\n".join(filter(None, faults))


def test_the_inside_of_a_report_stays_inside() -> None:
    inside = ("soar.report.sections", "soar.report.exhibits")
    found = [one for one in IMPORTS if one.target.startswith(inside) and part_of(one.source) != "report"]
    assert not found, "what others draw with is in soar.report.drawing"


def test_no_import_goes_in_a_circle() -> None:
    """Also none inside a function, where a circle would be no error but still a knot."""
    graph: dict[str, set[str]] = {}
    for one in IMPORTS:
        if not one.is_for_types:
            graph.setdefault(one.source, set()).add(one.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize(
    "source, target, text",
    [
        ("soar.runs", "soar.training.trainer", "line 7: runs imports soar.training.trainer of the higher"),
        ("soar.models.cnn", "soar.data", "line 7: imports soar.data, which stands beside it in data |"),
        ("soar.training.trainer", "soar.runs", None),
        ("soar.data.npz", "soar.data.files", None),
        ("soar.experiments.estimates", "soar.cost.training", None),
    ],
)
def test_what_is_found(source: str, target: str, text: str | None) -> None:
    found = fault(Import(source, target, 7, False))
    assert found is None if text is None else text in str(found)


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(
        "import soar.errors\nfrom soar import runs, __version__\n"
        "if TYPE_CHECKING:\n    from soar.data import Split\n"
        "def load():\n    from soar.data.npz import read\n"
    )
    found = [(one.target, one.line, one.is_for_types) for one in imports("soar.made", path, KNOWN)]
    assert sorted(found, key=lambda one: one[1]) == [
        ("soar.errors", 1, False),
        ("soar.runs", 2, False),
        ("soar", 2, False),
        ("soar.data", 4, True),
        ("soar.data.npz", 6, False),
    ]
