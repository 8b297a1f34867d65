"""Every data set by name: what it is, which files it has, how it is read.

Nothing here needs torch, so that names can be listed and files fetched without waiting for it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from soar import values
from soar.data import bundled, cifar10, fashion_mnist, folder, npz, svhn
from soar.data.files import File, find
from soar.data.root import data_root, expanded
from soar.data.source import Source
from soar.errors import UserError, reason_of, unknown
from soar.registry import Registry

DATASETS: Registry[Source] = Registry("data")


@DATASETS.register("fashion-mnist-sample")
def _read_bundled(_: Path) -> Source:
    """10,000 + 2,000 of Fashion-MNIST's pictures, part of the package: 28 x 28, gray, 10 classes."""
    return bundled.read()


@DATASETS.register("fashion-mnist")
def _read_fashion_mnist(path: Path) -> Source:
    """60,000 + 10,000 pictures of clothes: 28 x 28, gray, 10 classes."""
    return fashion_mnist.read(path)


@DATASETS.register("cifar10")
def _read_cifar10(path: Path) -> Source:
    """50,000 + 10,000 photographs of animals and vehicles: 32 x 32, color, 10 classes."""
    return cifar10.read(path)


@DATASETS.register("svhn")
def _read_svhn(path: Path) -> Source:
    """73,257 + 26,032 photographs of house numbers: 32 x 32, color, 10 digits."""
    return svhn.read(path)


@DATASETS.register("folder")
def _read_folder(path: Path) -> Source:
    """folder:DIR - your pictures in DIR/train/<class>/ and DIR/test/<class>/, or in DIR/<class>/."""
    return folder.read(path)


@DATASETS.register("npz")
def _read_npz(path: Path) -> Source:
    """FILE.npz - your arrays x_train, y_train, x_test, y_test, uint8."""
    return npz.read(path)


@dataclass(frozen=True)
class Holding:
    """The files of a named data set and the folder they belong in."""

    name: str
    folder: Path
    files: tuple[File, ...]

    def missing(self) -> list[str]:
        """Name the files that are not there."""
        return [file.name for file in self.files if find(self.folder, file.name) is None]


FETCHABLE: dict[str, tuple[File, ...]] = {
    "cifar10": cifar10.FILES,
    "fashion-mnist": fashion_mnist.FILES,
    "svhn": svhn.FILES,
}
BUNDLED = "fashion-mnist-sample"


def holding(name: str, root: Path | None = None) -> Holding:
    """Return which files a named data set has and where.

    Args:
        name: a data set of the package's own list
        root: the folder of all data sets; chosen by `data_root` when None

    Raises:
        UserError: there is no such data set
    """
    if name == BUNDLED:
        return Holding(name, bundled.FOLDER, bundled.FILES)
    if name not in FETCHABLE:
        raise unknown("data set", name, [*FETCHABLE, BUNDLED], "soar data")
    return Holding(name, data_root(root) / name, FETCHABLE[name])


def read(name: str, root: Path | None = None) -> Source:
    """Read a data set by name: one of the list, `folder:DIR`, `FILE.npz` or `npz:FILE`.

    Args:
        name: which data set
        root: the folder of the data sets that were fetched; chosen by `data_root` when None

    Raises:
        UserError: the name is unknown, files are missing, or they are malformed
    """
    values.text(name, "data.name")
    kind, separator, path = name.partition(":")
    if name.endswith(".npz") and kind != "npz":
        kind, separator, path = "npz", ":", name
    if separator and kind in ("folder", "npz"):
        return _read_own(kind, expanded(values.place(path, "data.name")))
    if name not in FETCHABLE and name != BUNDLED:
        names = [*FETCHABLE, BUNDLED, "folder:DIR", "FILE.npz"]
        raise unknown("data set", name, names, "data.name, --data")
    held = holding(name, root)
    if missing := held.missing():
        place = f" --root {root}" if root is not None else ""
        raise UserError(
            f"data set '{name}' is not in {held.folder} ({missing[0]} is missing); "
            f"run `soar data fetch {name}{place}`, or say where it is with --root or SOAR_DATA"
        )
    return _read(name, held.folder)


def _read_own(kind: str, path: Path) -> Source:
    if not os.path.exists(path):  # a name that is too long does not exist either
        raise UserError(f"{kind}:{path}: does not exist (data.name, --data)")
    return _read(kind, path)


def _read(kind: str, path: Path) -> Source:
    try:
        return DATASETS[kind].build(path)
    except MemoryError:
        raise UserError(f"{path}: does not fit into memory") from None
    except OSError as error:  # a folder that may not be listed, a file that has vanished
        raise UserError(f"{error.filename or path}: cannot be read ({reason_of(error)})") from None
