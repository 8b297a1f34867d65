"""Folders for results that take hours to get."""

from __future__ import annotations

import tempfile
from pathlib import Path

from soar.errors import UserError


def ready_folder(folder: Path, flag: str) -> Path:
    """Make a folder and try to write there, before hours are spent on what it is to hold.

    Args:
        folder: need not exist
        flag: what chose it, for the message

    Raises:
        UserError: if nothing can be written there
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(f"{flag}: {folder} cannot be written to ({error.strerror})") from None
