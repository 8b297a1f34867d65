"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from soar import values
from soar.errors import UserError


def data_root(root: Path | None = None) -> Path:
    """Choose the folder that holds one sub-folder a data set.

    Args:
        root: the folder the user named; otherwise the environment variable SOAR_DATA decides, and
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
