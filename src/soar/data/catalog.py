"""Every dataset by name: what it is, which files it has, where they are, and how they are read.

Nothing here needs torch, so that names can be listed and files fetched without waiting for it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from soar import values
from soar.data.files import BUNDLED as BUNDLED
from soar.data.files import BUNDLED_FILES, BUNDLED_FOLDER, File, find
from soar.data.files import FETCHABLE as FETCHABLE
from soar.data.unverified import SUFFIX, base_of, files_of
from soar.errors import UserError, reason_of, unknown
from soar.registry import Registry

if TYPE_CHECKING:
    from soar.data.dataset import Dataset

DATASETS: Registry[Dataset] = Registry("data")


def _register(name: str, description: str) -> None:
    is_own = name in ("folder", "npz", "tiny-imagenet")

    def read(path: Path) -> Dataset:
        own = name.replace("-", "_")
        module = import_module(f"soar.data.{own if is_own else 'published'}")
        found: Dataset = getattr(module, "read" if is_own else own)(path)
        return found

    read.__doc__ = description
    DATASETS.register(name)(read)


for _name, _description in {
    BUNDLED: "10,000 + 2,000 images of Fashion-MNIST, part of the package: 28 x 28, gray, 10 classes.",
    "fashion-mnist": "60,000 + 10,000 images of clothes: 28 x 28, gray, 10 classes.",
    "cifar10": "50,000 + 10,000 photographs of animals and vehicles: 32 x 32, color, 10 classes.",
    "cifar100": "50,000 + 10,000 photographs: 32 x 32, color, 100 classes.",
    "svhn": "73,257 + 26,032 photographs of house numbers: 32 x 32, color, 10 digits.",
    "tiny-imagenet": "100,000 + 10,000 photographs, a part of ImageNet: 64 x 64, color, 200 classes.",
    "folder": "folder:DIR - your images in DIR/train/<class>/ and DIR/test/<class>/, or in DIR/<class>/.",
    "npz": "FILE.npz - your arrays x_train, y_train, x_test, y_test, uint8.",
}.items():
    _register(_name, _description)


@dataclass(frozen=True)
class Holding:
    """The files of a named dataset and the folder they belong in."""

    folder: Path
    files: tuple[File, ...]

    def missing(self) -> list[str]:
        """Return the names of the files that are not there."""
        return [file.name for file in self.files if find(self.folder, file.name) is None]


def holding(name: str, root: Path | None = None) -> Holding:
    """Return which files a named dataset has and where.

    Args:
        name: a dataset of the package's own list
        root: the folder of all datasets; chosen by `data_root` when None

    Raises:
        UserError: there is no such dataset
    """
    if name == BUNDLED:
        return Holding(BUNDLED_FOLDER, BUNDLED_FILES)
    if base_of(name) not in FETCHABLE:
        raise unknown("dataset", name, [*FETCHABLE, BUNDLED], "soar data")
    folder = data_root(root) / name
    return Holding(folder, files_of(base_of(name), folder))


def read(name: str, root: Path | None = None) -> Dataset:
    """Read a dataset by name: one of the list, `folder:DIR`, `FILE.npz` or `npz:FILE`.

    NAME-unverified is a dataset of the list, read from files that are not those that were published.

    Args:
        name: which dataset
        root: the folder of the datasets that were fetched; chosen by `data_root` when None

    Raises:
        UserError: the name is unknown, files are missing, or they are malformed
    """
    values.text(name, "data.name")
    kind, separator, path = name.partition(":")
    if name.endswith(".npz") and kind != "npz":
        kind, separator, path = "npz", ":", name
    if separator and kind in ("folder", "npz"):
        own = expanded(values.place(path, "data.name"))
        if not os.path.exists(own):  # a name that is too long does not exist either
            raise UserError(f"{kind}:{own}: does not exist (data.name, --data)")
        return _read(kind, own)
    if base_of(name) not in FETCHABLE and name != BUNDLED:
        names = [*FETCHABLE, BUNDLED, "folder:DIR", "FILE.npz"]
        raise unknown("dataset", name, names, "data.name, --data")
    held = holding(name, root)
    if missing := held.missing():
        place = f" --root {root}" if root is not None else ""
        how = " --from DIR --allow-unverified" if name.endswith(SUFFIX) else ""
        raise UserError(
            f"dataset '{name}' is not in {held.folder} ({missing[0]} is missing); "
            f"run `soar data fetch {base_of(name)}{place}{how}`, or say where it is with --root or SOAR_DATA"
        )
    return _read(base_of(name), held.folder)


def _read(kind: str, path: Path) -> Dataset:
    try:
        return DATASETS[kind].build(path)
    except MemoryError:
        raise UserError(f"{path}: does not fit into memory") from None
    except OSError as error:  # a folder that may not be listed, a file that has vanished
        raise UserError(f"{error.filename or path}: cannot be read ({reason_of(error)})") from None


def data_root(root: Path | None = None) -> Path:
    """Return the folder with one sub-folder per dataset.

    Args:
        root: the folder that the user named; by default the environment variable SOAR_DATA, and
            without it `soar/data` in the user's cache folder

    >>> data_root(Path("somewhere"))
    PosixPath('somewhere')
    """
    if root is not None:
        return expanded(values.place(root, "root"))
    if named := os.environ.get("SOAR_DATA"):
        return expanded(Path(named))
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expanded(Path(cache)) / "soar" / "data"


def expanded(path: Path) -> Path:
    """Return a path with its leading `~` or `~user` replaced by that user's home folder.

    Raises:
        UserError: there is no such user
    """
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise UserError(f"{path}: {error}") from None
