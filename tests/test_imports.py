"""The import surface: quick to import, nothing optional, every public name where it is promised."""

from __future__ import annotations

import subprocess
import sys

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


@pytest.mark.parametrize("name", soar.__all__)
def test_public_names_are_there(name: str) -> None:
    assert getattr(soar, name) is not None
    assert name in dir(soar)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'soar' has no attribute 'nonsense'"):
        soar.nonsense  # noqa: B018
