"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from soar import values


def data_root(root: Path | None = None) -> Path:
    """Choose the folder that holds one sub-folder a data set.

    Args:
        root: the folder the user named; otherwise the environment variable SOAR_DATA decides, and
            without it `soar/data` in the user's cache folder

    >>> data_root(Path("somewhere"))
    PosixPath('somewhere')
    """
    if root is not None:
        return values.place(root, "root").expanduser()
    if named := os.environ.get("SOAR_DATA"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "soar" / "data"
