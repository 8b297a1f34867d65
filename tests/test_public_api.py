"""The public surface is what tests/public_api.txt says, so that a change of it is a change of a file."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import soar
from tests import public_api

ROOT = Path(__file__).parent.parent


def test_the_surface_is_the_one_that_was_written_down() -> None:
    now, before = public_api.surface().splitlines(), public_api.FILE.read_text().splitlines()
    gone, new = [line for line in before if line not in now], [line for line in now if line not in before]
    message = "the public surface has changed: see docs/reference/versions.md for what that means for the"
    message += " version, then run `python -m tests.public_api`"
    assert (gone, new) == ([], []), message


@pytest.mark.parametrize("package", public_api.PACKAGES)
def test_every_public_name_is_documented_and_found_by_dir(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        assert name in dir(module), name
        if callable(value):
            assert value.__doc__, name


def test_the_surface_names_no_address_in_memory() -> None:
    assert "0x" not in public_api.surface()


def test_the_version_is_the_same_everywhere() -> None:
    (cited,) = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited == soar.__version__
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", soar.__version__)
