"""How to repeat a run: commands, attack parameters, seeds, versions, hardware and recipe."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soar import epsilon
from soar.attacks.attack import ATTACKS
from soar.errors import printable
from soar.evaluation import Assessment, Certificate
from soar.evaluation.assessment import AttackResult
from soar.evaluation.suites import SUITES, describe, resolve
from soar.report.markup import Html, join, missing, panels, section, tag
from soar.weights import Weights

if TYPE_CHECKING:
    from soar.report.content import RunContent

_PROGRAMS = {"soar": ("soar",), "__main__.py": ("python", "-m", "soar")}
_LONGEST_COMMAND = 2000
_LONGEST = 200


def repeat_commands(
    run: Path,
    environment: dict[str, Any],
    found: Assessment,
    *,
    is_diagnosed: bool,
    certificates: Sequence[Certificate] = (),
) -> tuple[str, ...]:
    """Return the commands that train, evaluate, diagnose, certify and report the run once more.

    Args:
        run: its folder
        environment: the environment recorded when it was trained
        found: its assessment
        is_diagnosed: whether there is a diagnosis to repeat
        certificates: what is certified
    """
    folder = shlex.quote(str(run))
    recipe = shlex.quote(str(run / "recipe.toml"))
    lines = [
        _recorded(environment, "train", "study", "demo") or f"soar train {recipe}",
        _recorded(found.environment, "evaluate") or _evaluate(folder, found),
    ]
    lines += [f"soar diagnose {folder}"] if is_diagnosed else []
    certified = [_recorded(one.environment, "certify") or _certify(folder, one) for one in certificates]
    lines += dict.fromkeys(certified)
    return tuple(printable(line) for line in (*lines, f"soar report {folder}"))


def _recorded(environment: dict[str, Any], *names: str) -> str | None:
    """Return the recorded command, if it is one of these and is nothing but words.

    The record may come from another machine. What this package records is quoted, so that a shell takes every
    word of it as it is; anything else is not repeated.
    """
    text = environment.get("command")
    if not isinstance(text, str) or len(text) > _LONGEST_COMMAND or printable(text) != text:
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
        if [tuple(describe(one).values()) for one in resolve(suite.name, found.threat.norm_name)] == made:
            return f"{line} --attacks {suite.name}"
    texts = [_attack_text(one.name, one.parameters) for one in found.attacks]
    return f"{line} --attacks {' '.join(map(shlex.quote, texts))}"


def _certify(folder: str, found: Certificate) -> str:
    options = ",".join(f"{name}={value}".lower() for name, value in found.options.items())
    method = shlex.quote(f"{found.method}:{options}" if options else found.method)
    about = f"--norm {found.threat.norm_name} --eps {epsilon.show(found.threat.eps)} --seed {found.seed}"
    return f"soar certify {folder} --examples {len(found)} {about} --method {method}"


def _attack_text(kind: str, parameters: dict[str, Any]) -> str:
    """Return an attack as the command line takes it, with the options that differ from their defaults."""
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


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw commands, attack parameters, seeds, versions, hardware and recipe of every run."""
    return section(
        "provenance",
        "Reproducibility",
        panels("provenance", runs, _panel),
        lead="Everything random is a function of the seed, so these commands give the same numbers again.",
    )


def _panel(_place: int, run: RunContent) -> Html:
    found = run.assessment
    facts = {
        "model": found.model,
        "weights": _weights(found.weights),
        "data": f"{found.data}, {len(found)} images",
        "threat": str(found.threat),
        "seed of the assessment": str(found.seed),
    }
    if run.diagnosis is not None:
        facts["seed of the diagnosis"] = str(run.diagnosis.seed)
    return tag(
        "div",
        tag("h4", "Commands"),
        tag("div", tag("pre", tag("code", "\n".join(run.commands)), tabindex=0), class_="copyable"),
        tag("h4", "Assessment"),
        _definitions(facts),
        tag("h4", "Attacks"),
        _definitions({one.label: _attack(one) for one in found.attacks}),
        tag("h4", "Versions and hardware"),
        _environment(run),
        tag("details", tag("summary", "Recipe (TOML)"), tag("pre", tag("code", run.recipe), tabindex=0)),
    )


def _definitions(facts: dict[str, str]) -> Html:
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in facts.items()))


def _weights(weights: Weights | None) -> str:
    if weights is None:
        return "not on record"
    step = "" if weights.step is None else f"step {weights.step}, "
    return f"{weights.file}, {step}SHA-256 {weights.sha256}"


def _environment(run: RunContent) -> Html:
    """Draw where the run was trained, or where it was assessed if that is not on record."""
    # The command is among those above if it is fit to be repeated.
    recorded = {
        name: "none" if value is None else printable(str(value), _LONGEST)
        for name, value in (run.environment or run.assessment.environment).items()
        if name != "command"
    }
    return _definitions(recorded) if recorded else missing("Nothing is on record.")


def _attack(one: AttackResult) -> str:
    given = [f"{name} {value}" for name, value in one.parameters.items() if value is not None]
    on = "on what earlier attacks have left" if one.survivors_only else "on all correctly classified images"
    mean = f", mean of {one.samples} predictions" if one.samples > 1 else ""
    return f"{one.name}: {', '.join(given) or 'no options'}; {on}{mean}"
