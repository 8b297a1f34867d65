import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from soar.data import catalog
from soar.data.catalog import data_root
from soar.errors import UserError


def write_npz(path: Path) -> None:
    np.savez(path, x_test=np.zeros((3, 8, 8), np.uint8), y_test=np.arange(3))


def test_every_data_set_is_described() -> None:
    names = [entry.name for entry in catalog.DATASETS]
    assert names == [
        "cifar10",
        "cifar100",
        "datasets",
        "fashion-mnist",
        "fashion-mnist-sample",
        "folder",
        "npy",
        "npz",
        "svhn",
        "tiny-imagenet",
        "webdataset",
    ]
    assert all(entry.description.endswith(".") for entry in catalog.DATASETS)


@pytest.mark.parametrize("prefix", ["", "npz:"])
def test_an_archive_is_read_by_path(tmp_path: Path, prefix: str) -> None:
    write_npz(tmp_path / "own.npz")
    assert len(catalog.read(f"{prefix}{tmp_path / 'own.npz'}").test) == 3


def test_an_archive_may_have_any_name_after_the_prefix(tmp_path: Path) -> None:
    write_npz(tmp_path / "own.npz")
    (tmp_path / "own.npz").rename(tmp_path / "own")
    assert len(catalog.read(f"npz:{tmp_path / 'own'}").test) == 3


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_npz(tmp_path / "own.npz")
    assert len(catalog.read("~/own.npz").test) == 3


@pytest.mark.parametrize("name", ["/nowhere/own.npz", "folder:/nowhere"])
def test_a_path_must_exist(name: str) -> None:
    with pytest.raises(UserError, match=r":/nowhere.*: does not exist \(data\.name, --data\)"):
        catalog.read(name)


def test_an_unknown_name_is_answered_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"unknown dataset 'cifra10' .*did you mean 'cifar10'\?"):
        catalog.read("cifra10")


def test_files_not_there_are_answered_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOAR_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"data_batch_1\.bin is missing.*`soar data fetch cifar10`"):
        catalog.read("cifar10")
    with pytest.raises(UserError, match=f"`soar data fetch svhn --root {tmp_path}`"):
        catalog.read("svhn", tmp_path)


def test_listing_does_not_wait_for_torch() -> None:
    code = "import sys; import soar.data.fetch; print('torch' in sys.modules, 'PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


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
