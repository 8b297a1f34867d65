"""Fields of a recipe set by flags: `--training.epochs 30`, or just `--epochs 30`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from soar.errors import UserError, unknown
from soar.recipes.recipe import OPEN_SECTIONS, SECTIONS, loads

Overrides = dict[str, Any]

_SHORT_SECTIONS = ("training", "threat", "data")


def parse(tokens: Sequence[str]) -> Overrides:
    """Read flags as full field names with values.

    A flag is a full name (`--training.lr 0.1`), the last part of one where that is unambiguous (`--lr 0.1`),
    or a section that has a name (`--objective adversarial`). `--flag=value` works too, and a flag for a
    yes-or-no field may stand alone.

    Args:
        tokens: what is left of the command line after the command's own flags

    Raises:
        UserError: for a flag that is no field, or a value that is missing

    >>> parse(["--epochs", "30", "--objective.steps=7", "--flip", "--milestones", "100,150"])
    {'training.epochs': 30, 'objective.steps': 7, 'data.flip': True, 'training.milestones': [100, 150]}
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
        found[field] = _value(text, field)
    return found


def apply(table: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return a recipe's table with some fields replaced; the table itself is left alone.

    A new name for the model or the objective drops the options of the old one.

    Raises:
        UserError: if what should be a section of the recipe is something else

    >>> apply({"objective": {"name": "pgd", "steps": 3}}, {"objective.name": "standard"})
    {'objective': {'name': 'standard'}}
    """
    changed = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    for field in sorted(overrides, key=lambda name: not name.endswith(".name")):
        value = overrides[field]
        section, _, name = field.rpartition(".")
        if not section:
            changed[name] = value
            continue
        part = changed.setdefault(section, {})
        if not isinstance(part, dict):
            raise UserError(f"{section}: got {part!r}, expected a table")
        if section in OPEN_SECTIONS and name == "name" and part.get("name") != value:
            part.clear()
        part[name] = value
    return changed


def full_name(name: str) -> str:
    """Return the full name of a field from the name of a flag.

    The last part of a name is enough for fields of `training`, `threat` and `data`. Others would be
    misread too easily: `--steps` could mean the attack that trains or the attack that validates.

    >>> full_name("lr"), full_name("model"), full_name("batch_size")
    ('training.lr', 'model.name', 'training.batch_size')
    """
    known = all_fields()
    section, _, _ = name.partition(".")
    if name in known or (section in OPEN_SECTIONS and "." in name):
        return name
    if name in (*OPEN_SECTIONS, "data"):
        return f"{name}.name"
    for section in _SHORT_SECTIONS:
        if name in SECTIONS[section].__dataclass_fields__ and name != "name":
            return f"{section}.{name}"
    longer = [f"--{field}" for field in known if field.rpartition(".")[2] == name and name != "name"]
    if longer:
        raise UserError(f"--{name} is not clear; write {' or '.join(longer)}, or --objective.{name}")
    short = [one for section in _SHORT_SECTIONS for one in SECTIONS[section].__dataclass_fields__]
    raise unknown(
        "flag", f"--{name}", [f"--{one}" for one in {*known, *short, *OPEN_SECTIONS}], "a recipe's field"
    )


def all_fields() -> list[str]:
    """Name every field of a recipe but the options of models and objectives."""
    fields = ["description", "seed"]
    for section, kind in SECTIONS.items():
        fields += [f"{section}.{name}" for name in kind.__dataclass_fields__]
    return fields + [f"{section}.name" for section in OPEN_SECTIONS]


def _kind(field: str) -> str:
    """Return the annotation of a field as it is written, or nothing for an option."""
    section, _, name = field.rpartition(".")
    described = SECTIONS[section].__dataclass_fields__.get(name) if section in SECTIONS else None
    return str(described.type) if described else ""


def _value(text: str, field: str) -> Any:
    """Read a value as TOML would; what is not TOML is text, and commas make a list where one is wanted."""
    kind = _kind(field)
    is_list = kind.startswith("tuple") or ("tuple" in kind and "," in text)
    if is_list and not text.startswith("["):
        text = f"[{text}]"
    if text == "null":
        return None
    try:
        value = loads(f"value = {text}")
    except ValueError:
        return text
    # A line break could begin another field; dates, and numbers where text is wanted, are text.
    is_text = kind in ("str", "str | None") or field.rpartition(".")[2] == "name"
    kept = isinstance(value["value"], str | list | dict if is_text else str | list | dict | int | float)
    return value["value"] if len(value) == 1 and kept else text
