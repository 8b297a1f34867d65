"""The page of all fields of a recipe, read from the classes that hold them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from command_page import default
from tables import code, table

INTRODUCTION = """\
# Recipe fields

Generated from the code that reads recipes. A recipe is a TOML file with these tables. Each field is also a flag of
`soar train`, by its full name (`--training.epochs 30`) and, for `training`, `threat` and `data`, by its last part
(`--epochs 30`). `soar list recipes` shows the shipped recipes, and every run folder contains a complete one in
`recipe.toml`.
"""
CHOSEN = {
    "model": "The network: `name` and its options. A name with a colon, `package.module:callable`, is a"
    " network of your own; its options are passed to the callable as keyword arguments.",
    "objective": "The training objective: `name` and its options.",
}


def text() -> str:
    """Write the page."""
    from soar.models import MODELS
    from soar.objectives import OBJECTIVES
    from soar.recipes.recipe import SECTIONS, Recipe

    lines = [INTRODUCTION, "## Top level", "", *_fields(Recipe, ("description", "seed"))]
    for section, kind in SECTIONS.items():
        summary = (kind.__doc__ or "").split("\n")[0]
        lines += [f"## [{section}]", "", summary, "", *_fields(kind, tuple(kind.__dataclass_fields__))]
    for section, registry in (("model", MODELS), ("objective", OBJECTIVES)):
        lines += [f"## [{section}]", "", CHOSEN[section], ""]
        for entry in registry:
            lines += [f"### {entry.name}", "", entry.description, "", *_options(entry.build)]
    return "\n".join(lines)


def _fields(kind: Any, names: tuple[str, ...]) -> list[str]:
    """Describe the fields of a section, with their attribute docstrings."""
    from soar.recipes.overrides import documents

    hints, meanings = get_type_hints(kind, include_extras=True), documents(kind)
    rows = []
    for name in names:
        held = kind.__dataclass_fields__[name].default
        shown = "" if held is MISSING else _written(held)
        rows.append((code(name), _kind(hints[name]), shown, meanings.get(name, "")))
    return table(["field", "value", "default", "meaning"], rows)


def _options(build: Callable[..., Any]) -> Iterator[str]:
    """Describe the keyword options of a model or an objective; a model's class describes them."""
    import griffe

    said: dict[str, str] = {}
    made = build if inspect.isclass(build) else get_type_hints(build)["return"]
    for section in griffe.Docstring(inspect.getdoc(made) or "").parse("google", warnings=False):
        if isinstance(section, griffe.DocstringSectionParameters):
            said = {one.name: " ".join(one.description.split()) for one in section.value}
    parameters = inspect.signature(build).parameters.values()
    rows = [
        (code(one.name), "" if one.default is one.empty else _written(one.default), said.get(one.name, ""))
        for one in parameters
        if one.kind is one.KEYWORD_ONLY and one.name != "seed"
    ]
    if rows:
        yield from table(["option", "default", "meaning"], rows)


def _written(value: Any) -> str:
    """Return the text of a default, empty if there is none."""
    return "" if value is None or value == () else code(default(value))


def _kind(hint: Any) -> str:
    """Describe the values that a field takes."""
    if get_origin(hint) is Annotated:
        inner, *limits = get_args(hint)
        return _kind(inner) + "".join(_limits(one) for one in limits if isinstance(one, msgspec.Meta))
    if get_origin(hint) is Literal:
        return ", ".join(code(choice) for choice in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_kind(one) for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is tuple:
        return f"list of: {_kind(get_args(hint)[0])}"
    if is_dataclass(hint):
        return "a table, see below"
    words: dict[Any, str] = {int: "integer", float: "number", str: "string", bool: "true or false"}
    return words[hint]


def _limits(limit: msgspec.Meta) -> str:
    signs = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
    bounds = [
        f"{sign} {getattr(limit, name)}" for name, sign in signs.items() if getattr(limit, name) is not None
    ]
    return " " + ", ".join(bounds)
