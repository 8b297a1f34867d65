"""Find a class or function of any package by its name in a recipe."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soar.errors import UserError, first_line, flag_of


def imported(path: str, what: str) -> Callable[..., Any]:
    """Return a class or function that is not registered; the current folder is searched too.

    Args:
        path: `package.module:callable`
        what: the section of a recipe that names it, for messages; its flag has the same name

    Raises:
        UserError: if it cannot be imported

    >>> imported("math:sqrt", "model")(9)
    3.0
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise UserError(f"{what}: got '{path}', expected package.module:callable{flag_of(what)}")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's code may fail in any way
        raise UserError(f"{what}: cannot import {module_name} ({where(error)})") from error
    found: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(found):
        raise UserError(f"{what}: {module_name} has no class or function '{name}'{flag_of(what)}")
    return found


def where(error: BaseException) -> str:
    """Return what went wrong and in which line, as a traceback would."""
    if isinstance(error, ImportError | SyntaxError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{first_line(error)}; {Path(last.filename).name}, line {last.lineno}"
