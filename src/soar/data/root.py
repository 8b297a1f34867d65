"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def data_root(root: Path | None = None) -> Path:
    """Choose the folder that holds one sub-folder a data set.

    Args:
        root: the folder the user named; otherwise the environment variable SOAR_DATA decides, and
            without it `soar/data` in the user's cache folder

    >>> data_root(Path("somewhere"))
    PosixPath('somewhere')
    """
    if root is not None:
        return expanded(root)
    if named := os.environ.get("SOAR_DATA"):
        return expanded(named)
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expanded(cache) / "soar" / "data"


def expanded(path: Path | str) -> Path:
    """Return a path with the home folder in place of `~`; `~name` stays as it is where nobody has that name.

    >>> expanded("~no-such-user/data")
    PosixPath('~no-such-user/data')
    """
    # Path.expanduser raises RuntimeError where there is no home folder.
    return Path(os.path.expanduser(path))
