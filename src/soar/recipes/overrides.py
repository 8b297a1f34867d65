"""Fields of a recipe set by flags: `--training.epochs 30`, or just `--epochs 30`."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import MISSING
from itertools import pairwise
from typing import Any

from soar.errors import UserError, unknown
from soar.options import literal, parse_spec
from soar.recipes.recipe import OPEN_SECTIONS, SECTIONS, Recipe

Overrides = dict[str, Any]

_SHORT_SECTIONS = ("training", "threat", "data")


def parse(tokens: Sequence[str]) -> Overrides:
    """Parse flags into full field names with values.

    A flag is a full name (`--training.lr 0.1`), the last part of one where that is unambiguous (`--lr 0.1`),
    or a section that has a name, perhaps with options (`--objective adversarial:steps=7`). `--flag=value`
    works too, and a flag for a boolean field may stand alone.

    Args:
        tokens: the command line without the command's own flags

    Raises:
        UserError: for a flag that is no field, or a missing value

    >>> parse(["--epochs", "30", "--objective.steps=7", "--flip", "--milestones", "100,150"])
    {'training.epochs': 30, 'objective.steps': 7, 'data.flip': True, 'training.milestones': [100, 150]}
    >>> parse(["--model", "resnet10:width=8"])
    {'model.width': 8, 'model.name': 'resnet10'}
    """
    found: Overrides = {}
    rest = list(tokens)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--"):
            raise UserError(f"got '{flag}', expected a flag such as --epochs 30")
        name, equals, text = flag[2:].partition("=")
        field = full_name(name.replace("-", "_"))
        if not equals:
            has_value = bool(rest) and not rest[0].startswith("--")
            if not has_value and _kind(field) != "bool":
                raise UserError(f"--{name} needs a value")
            text = rest.pop(0) if has_value else "true"
        section = field.removesuffix(".name")
        if section in OPEN_SECTIONS:
            text, options = parse_spec(text, section)
            found |= {f"{section}.{option}": literal(value) for option, value in options.items()}
        found[field] = _value(text, field)
    return found


def apply(table: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return a recipe's table with some fields replaced; the table itself is left alone.

    A new name for the model or the objective drops the options of the old one, and `epochs` without `minutes`
    the recipe's own `minutes`, which would otherwise decide.

    Raises:
        UserError: if what should be a section of the recipe is something else

    >>> apply({"objective": {"name": "pgd", "steps": 3}}, {"objective.name": "standard"})
    {'objective': {'name': 'standard'}}
    >>> apply({"training": {"minutes": 10, "epochs": 6}}, {"training.epochs": 30})
    {'training': {'epochs': 30}}
    """
    changed = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    for field in sorted(overrides, key=lambda name: not name.endswith(".name")):
        value = overrides[field]
        section, _, name = field.rpartition(".")
        if not section:
            changed[name] = value
            continue
        part = changed
        for inner in section.split("."):
            found = part.get(inner, {})
            if not isinstance(found, dict):
                raise UserError(f"{section}: got {found!r}, expected a table")
            part[inner] = part = dict(found)
        if section in OPEN_SECTIONS and name == "name" and part.get("name") != value:
            part.clear()
        part[name] = value
    if "training.epochs" in overrides and "training.minutes" not in overrides:
        changed["training"].pop("minutes", None)
    return changed


def flat(table: dict[str, Any], prefix: str = "") -> Overrides:
    """Return nested tables as full names of fields.

    >>> flat({"seed": 1, "objective": {"name": "soar", "fd_step": 0.5}})
    {'seed': 1, 'objective.name': 'soar', 'objective.fd_step': 0.5}
    """
    found: Overrides = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def full_name(name: str, own: Iterable[str] = ()) -> str:
    """Return the full name of a field from the name of a flag.

    The last part of a name is enough for fields of `training`, `threat` and `data`. Others would be
    ambiguous: `--steps` could mean the attack that trains or the attack that validates.

    Args:
        name: the flag without its dashes
        own: flags of the command, which the error may suggest, too

    Raises:
        UserError: if no field, or more than one, is meant

    >>> full_name("lr"), full_name("model"), full_name("batch_size")
    ('training.lr', 'model.name', 'training.batch_size')
    """
    known = all_fields()
    section, _, _ = name.partition(".")
    if name in known or (section in OPEN_SECTIONS and "." in name):
        return name
    if name in (*OPEN_SECTIONS, "data", "data.extra"):
        return f"{name}.name"
    for section in _SHORT_SECTIONS:
        if name in names_of(section) and name != "name":
            return f"{section}.{name}"
    longer = [f"--{field}" for field in known if field.rpartition(".")[2] == name and name != "name"]
    if longer:
        raise UserError(f"--{name} is not clear; write {' or '.join(longer)}, or --objective.{name}")
    raise unknown("flag", f"--{name}", [*flags(), *own], "a recipe's field")


def flags() -> list[str]:
    """Return every flag that sets a field, by its full name and by what may stand for it."""
    short = [one for section in _SHORT_SECTIONS for one in names_of(section)]
    names = {*all_fields(), *short, *OPEN_SECTIONS} - {"name"}
    return sorted(f"--{name}" for name in names)


def all_fields() -> list[str]:
    """Return the names of all fields of a recipe, without the options of models and objectives."""
    fields = ["description", "seed"]
    for section in SECTIONS:
        fields += [f"{section}.{name}" for name in names_of(section)]
    return fields + [f"{section}.name" for section in OPEN_SECTIONS]


def names_of(section: str) -> list[str]:
    """Return the names of the fields of a section, without the sections inside of it."""
    return [name for name in SECTIONS[section].__dataclass_fields__ if f"{section}.{name}" not in SECTIONS]


def _kind(field: str) -> str:
    """Return the annotation of a field as it is written, or nothing for an option."""
    section, _, name = field.rpartition(".")
    described = SECTIONS[section].__dataclass_fields__.get(name) if section in SECTIONS else None
    return str(described.type) if described else ""


def _value(text: str, field: str) -> Any:
    """Return a value as TOML would read it; commas make a list where the field is one."""
    kind = _kind(field)
    is_list = kind.startswith("tuple") or ("tuple" in kind and "," in text)
    value = literal(f"[{text}]" if is_list and not text.startswith("[") else text)
    # Where text is expected, numbers are text.
    is_text = kind in ("str", "str | None") or field.rpartition(".")[2] == "name"
    return text if is_text and isinstance(value, int | float) else value


def help_text() -> str:
    """Return every field with its default and its meaning, for `soar train --help`.

    >>> "  --training.minutes              Train for so many minutes" in help_text()
    True
    """
    lines = ["fields of a recipe, each a flag; training, threat and data fields also by their last name:"]
    lines += _describe("", {"seed": Recipe})
    for section, kind in SECTIONS.items():
        lines += _describe(f"{section}.", dict.fromkeys(names_of(section), kind))
    lines.append(
        "  --model NAME, --objective NAME with options, such as --objective adversarial:steps=10, or one by"
    )
    lines.append("      one, such as --objective.steps 10; see `soar list models` and `soar list objectives`")
    return "\n".join(lines)


def _describe(prefix: str, owners: dict[str, Any]) -> list[str]:
    lines = []
    for name, kind in owners.items():
        default = kind.__dataclass_fields__[name].default
        shown = "" if default is MISSING or default is None else f" (default {default})"
        wrapped = textwrap.wrap(documents(kind).get(name, "") + shown, 66)
        lines.append(f"  --{prefix}{name:<{30 - len(prefix)}}" + wrapped[0])
        lines += [" " * 34 + line for line in wrapped[1:]]
    return lines


def documents(kind: Any) -> dict[str, str]:
    """Return the first line of the docstring under each field of a class.

    >>> documents(Recipe)["description"]
    'One line for `soar list recipes`.'
    """
    (body,) = [
        node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)
    ]
    found = {}
    for field, text in pairwise(body):
        is_documented = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_documented:
            found[field.target.id] = str(text.value.value).strip().split("\n")[0]  # type: ignore[attr-defined]
    return found
