"""What was run, so that others can run it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from soar.errors import printable
from soar.evaluation.assessment import AttackResult
from soar.report.content import RunContent
from soar.report.markup import Html, join, tag
from soar.report.sections.layout import definitions, missing, panels, section
from soar.weights import Weights

_LONGEST = 200


def provenance(runs: Sequence[RunContent]) -> Html:
    """Show commands, attack parameters, seeds, versions, hardware and recipe of every run."""
    return section(
        "provenance",
        "What was run",
        panels("provenance", runs, _panel),
        lead="Everything random is a function of the seed, so these commands give the same numbers again.",
    )


def _panel(_place: int, run: RunContent) -> Html:
    found = run.assessment
    facts = [
        ("model", found.model),
        ("weights", _weights(found.weights)),
        ("data", f"{found.data}, {len(found)} images"),
        ("threat", str(found.threat)),
        ("seed of the assessment", str(found.seed)),
    ]
    if run.diagnosis is not None:
        facts.append(("seed of the diagnosis", str(run.diagnosis.seed)))
    recipe = tag("details", tag("summary", "Recipe (TOML)"), tag("pre", tag("code", run.recipe), tabindex=0))
    return tag(
        "div",
        tag("h4", "Commands"),
        tag("div", tag("pre", tag("code", "\n".join(run.commands)), tabindex=0), class_="copyable")
        if run.commands
        else missing("No commands are on record."),
        tag("h4", "Assessment"),
        definitions(facts),
        tag("h4", "Attacks"),
        _attacks(found.attacks),
        tag("h4", "Versions and hardware"),
        _environments(run),
        recipe if run.recipe else missing("There is no recipe: the model was not trained here."),
    )


def _weights(weights: Weights | None) -> str:
    if weights is None:
        return "not on record"
    step = "" if weights.step is None else f"step {weights.step}, "
    return f"{weights.file}, {step}SHA-256 {weights.sha256}"


def _environments(run: RunContent) -> Html:
    """Show where the run was made, and where it was assessed if that was another place."""
    # The command is among those above if it is fit to be repeated.
    trained, assessed = (
        {name: value for name, value in noted.items() if name != "command"}
        for noted in (run.environment, run.assessment.environment)
    )
    if not trained or not assessed or trained == assessed:
        return _environment(trained or assessed)
    other = {name: value for name, value in assessed.items() if trained.get(name) != value}
    return join(
        _environment(trained), tag("p", "The assessment differs in:", class_="small"), _environment(other)
    )


def _environment(values: dict[str, Any]) -> Html:
    if not values:
        return missing("Nothing is on record.")
    return definitions(
        [
            (name, "none" if value is None else printable(str(value), _LONGEST))
            for name, value in values.items()
        ]
    )


def _attacks(results: Sequence[AttackResult]) -> Html:
    if not results:
        return missing("No attack was run.")
    return definitions([(one.label, _described(one)) for one in results])


def _described(one: AttackResult) -> str:
    given = [f"{name} {value}" for name, value in one.parameters.items() if value is not None]
    on = "on what earlier attacks have left" if one.survivors_only else "on all that are right"
    mean = f", mean of {one.samples} answers" if one.samples > 1 else ""
    return f"{one.name}: {', '.join(given) or 'no options'}; {on}{mean}"
