from pathlib import Path

import pytest

from soar.data.root import data_root
from soar.errors import UserError


def test_the_named_folder_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOAR_DATA", "/elsewhere")
    assert data_root(Path("/named")) == Path("/named")


def test_environment_comes_before_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOAR_DATA", "/from/environment")
    assert data_root() == Path("/from/environment")


def test_cache_honors_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOAR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert data_root() == Path("/cache/soar/data")


def test_cache_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOAR_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert data_root() == Path("/home/someone/.cache/soar/data")
    assert data_root(Path("~/mine")) == Path("/home/someone/mine")


def test_a_user_that_does_not_exist() -> None:
    with pytest.raises(UserError, match=r"^~nobody-there/x: Could not determine home directory"):
        data_root(Path("~nobody-there/x"))
