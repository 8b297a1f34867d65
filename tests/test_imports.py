"""The import surface: quick to import, nothing optional, every public name where it is promised."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import soar

HEAVY = (
    "torch",
    "numpy",
    "scipy",
    "PIL",
    "rich",
    "msgspec",
    "matplotlib",
    "tensorboard",
    "wandb",
    "torchvision",
)


def imported_by(statement: str) -> set[str]:
    """The heavy modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(printed.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import soar", "import soar.cli.main; soar.cli.main.make_parser()", "import soar.data"]
)
def test_importing_and_asking_for_help_needs_nothing_heavy(statement: str) -> None:
    assert imported_by(statement) == set()


def test_recipes_need_no_torch() -> None:
    assert "torch" not in imported_by("from soar import recipes; recipes.load('demo-robust')")


def test_using_everything_imports_nothing_optional() -> None:
    found = imported_by(f"import soar\nfor name in {soar.__all__!r}: getattr(soar, name)")
    assert found == {"torch", "numpy", "msgspec"}


ROOT = Path(__file__).parents[1]
API_PAGES = re.findall(r"reference/api/\S+\.md", (ROOT / "mkdocs.yml").read_text())
DOCUMENTED = sorted(
    {
        name
        for page in API_PAGES
        for name in re.findall(r"\bsoar(?:\.[A-Za-z]\w*)+", (ROOT / "docs" / page).read_text())
    }
)
# Each name is looked up in a process of its own, in which nothing but `import soar` has happened; torch is
# imported once for all of them.
LOOK_UP = """
import os, sys, types
import torch, numpy, msgspec
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        import soar
        found = soar
        for part in name.split(".")[1:]:
            if not isinstance(found, types.ModuleType):
                break  # a function with the name of its module
            found = getattr(found, part, None)
        if found is None:
            print(name, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_every_documented_name_is_an_attribute_after_importing_soar_alone() -> None:
    assert len(API_PAGES) > 5 and "soar.losses" in DOCUMENTED and "soar.recipes.settings" in DOCUMENTED
    missing = subprocess.run(
        [sys.executable, "-c", LOOK_UP, *DOCUMENTED], capture_output=True, text=True, check=True
    )
    assert missing.stdout.split() == []


@pytest.mark.parametrize("name", soar.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(soar, name) is not None
    assert name in dir(soar)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'soar' has no attribute 'nonsense'"):
        soar.nonsense  # noqa: B018
