"""Every dataset by name: what it is, which files it has, where they are, and how they are read.

Nothing here needs torch, so that names can be listed and files fetched without waiting for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import values
from soar.data.files import BUNDLED as BUNDLED
from soar.data.files import BUNDLED_FILES, BUNDLED_FOLDER, File, find
from soar.data.files import FETCHABLE as FETCHABLE
from soar.data.unverified import SUFFIX, base_of, files_of
from soar.errors import UserError, reason_of, unknown
from soar.registry import Registry

if TYPE_CHECKING:
    from soar.data.dataset import Dataset
    from soar.data.decoding import Framing

_CALLABLE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
DATASETS: Registry[Dataset] = Registry("data")


# The kinds of data that users have, and what a module of its own reads.
_MODULES = {
    "folder": "folder",
    "npz": "npz",
    "npy": "npy",
    "webdataset": "webdataset",
    "datasets": "huggingface",
    "tiny-imagenet": "tiny_imagenet",
}
ENCODED = ("folder", "webdataset", "datasets")
"""those whose images are decoded, and so can be brought to a size"""


def _register(name: str, description: str) -> None:
    def read(path: Path, **framing: Any) -> Dataset:
        module = import_module(f"soar.data.{_MODULES.get(name, 'published')}")
        found: Dataset = getattr(module, "read" if name in _MODULES else name.replace("-", "_"))(
            path, **framing
        )
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
    "npy": "npy:DIR - the same arrays, each in a .npy file of its own that is read row by row.",
    "webdataset": "webdataset:DIR - tar files train*.tar and test*.tar of images and classes.",
    "datasets": "datasets:DIR - a folder of Hugging Face's save_to_disk.",
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


def read(name: str, root: Path | None = None, framing: Framing | None = None) -> Dataset:
    """Read a dataset by name.

    NAME-unverified is a dataset of the list, read from files that are not those that were published.

    Args:
        name: one of the list, KIND:PATH for the user's own, `FILE.npz`, or `package.module:callable`
        root: the folder of the datasets that were fetched; chosen by `data_root` when None
        framing: the size that images in files are brought to; their own by default

    Raises:
        UserError: the name is unknown, files are missing, or they are malformed
    """
    values.text(name, "data.name")
    kind, separator, path = name.partition(":")
    if name.endswith(".npz") and kind != "npz":
        kind, separator, path = "npz", ":", name
    if framing is not None and kind not in ENCODED:
        raise UserError(
            f"data.resize, data.crop: cannot be used with {name}, expected one of {', '.join(ENCODED)}: the"
            " images of others are taken as they are"
        )
    if separator and kind in _MODULES and kind not in FETCHABLE:
        own = expanded(values.place(path, "data.name"))
        if not os.path.exists(own):  # a name that is too long does not exist either
            raise UserError(f"{kind}:{own}: does not exist (data.name, --data)")
        return _read(kind, own, {} if framing is None else {"framing": framing})
    if separator and _CALLABLE.fullmatch(name):
        return _guarded(lambda: import_module("soar.data.own").read(name), name)
    if base_of(name) not in FETCHABLE and name != BUNDLED:
        kinds = [f"{own}:DIR" for own in _MODULES if own not in ("npz", "tiny-imagenet")]
        names = [*FETCHABLE, BUNDLED, *kinds, "FILE.npz", "package.module:callable"]
        raise unknown("dataset", name, names, "data.name, --data")
    held = holding(name, root)
    if missing := held.missing():
        place = f" --root {root}" if root is not None else ""
        how = " --from DIR --allow-unverified" if name.endswith(SUFFIX) else ""
        raise UserError(
            f"dataset '{name}' is not in {held.folder} ({missing[0]} is missing); "
            f"run `soar data fetch {base_of(name)}{place}{how}`, or say where it is with --root or SOAR_DATA"
        )
    return _read(base_of(name), held.folder, {})


def _read(kind: str, path: Path, options: dict[str, Any]) -> Dataset:
    return _guarded(lambda: DATASETS[kind].build(path, **options), path)


def _guarded(read: Callable[[], Dataset], where: Path | str) -> Dataset:
    try:
        return read()
    except MemoryError:
        raise UserError(f"{where}: does not fit into memory") from None
    except OSError as error:  # a folder that may not be listed, a file that has vanished
        raise UserError(f"{error.filename or where}: cannot be read ({reason_of(error)})") from None


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
