"""What to type to repeat a run and what was found about it."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path
from typing import Any

from soar.attacks.attack import ATTACKS
from soar.errors import printable
from soar.evaluation import Assessment
from soar.evaluation.suites import SUITES, describe, resolve

_PROGRAMS = {"soar": ("soar",), "__main__.py": ("python", "-m", "soar")}
_LONGEST = 2000


def commands(
    run: Path, environment: dict[str, Any], found: Assessment, *, is_diagnosed: bool
) -> tuple[str, ...]:
    """Return the lines that train, evaluate, diagnose and report the run once more.

    Args:
        run: its folder
        environment: what was noted when it was made
        found: its assessment
        is_diagnosed: whether there is a diagnosis to repeat
    """
    folder = shlex.quote(str(run))
    recipe = shlex.quote(str(run / "recipe.toml"))
    lines = [
        _noted(environment, "train", "study", "demo") or f"soar train {recipe}",
        _noted(found.environment, "evaluate") or _evaluate(folder, found),
    ]
    lines += [f"soar diagnose {folder}"] if is_diagnosed else []
    return tuple(printable(line) for line in (*lines, f"soar report {folder}"))


def _noted(environment: dict[str, Any], *names: str) -> str | None:
    """Return the command that was running then, if it was one of these and is nothing but words.

    The note may come from somebody else. What this package notes is quoted, so that a shell takes every word
    of it as it is; anything else is not repeated.
    """
    text = environment.get("command")
    if not isinstance(text, str) or len(text) > _LONGEST or printable(text) != text:
        return None
    try:
        program, name, *rest = shlex.split(text)
    except ValueError:
        return None
    if _PROGRAMS.get(program) is None or name not in names or shlex.join([program, name, *rest]) != text:
        return None
    return shlex.join([*_PROGRAMS[program], name, *rest])


def _evaluate(folder: str, found: Assessment) -> str:
    line = f"soar evaluate {folder} --examples {len(found)} --seed {found.seed}"
    made = [(one.name, one.parameters, one.survivors_only, one.samples) for one in found.attacks]
    for suite in SUITES:
        if [tuple(describe(one).values()) for one in resolve(suite.name)] == made:
            return f"{line} --attacks {suite.name}"
    texts = [_as_text(one.name, one.parameters) for one in found.attacks]
    return f"{line} --attacks {' '.join(map(shlex.quote, texts))}"


def _as_text(kind: str, parameters: dict[str, Any]) -> str:
    """Write an attack as the command takes it, with the numbers that are not the usual ones."""
    builders = {getattr(entry.build, "__name__", entry.name): entry for entry in ATTACKS}
    if kind not in builders:
        return kind.lower()
    usual = inspect.signature(builders[kind].build).parameters
    given = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in parameters.items()
        if name in usual and value != usual[name].default
    ]
    return ":".join(filter(None, [builders[kind].name, ",".join(given)]))
