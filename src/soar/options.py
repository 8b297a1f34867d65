"""Convert the options of recipes and flags to typed values; every mistake is a message of one line."""

from __future__ import annotations

import inspect
import math
import re
import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from soar.errors import UserError, flag_of, shown, unknown

Wanted = TypeVar("Wanted")
_DEEPEST = 8
REQUIRED = inspect.Parameter.empty


def bind(function: Callable[..., Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check options against a function's annotated keyword-only parameters, and convert them.

    Args:
        function: a function or class whose options are keyword-only and annotated
        given: the options, possibly text as typed on a command line
        where: the recipe section, for messages

    Returns:
        The given options, each converted to the annotated type.

    Raises:
        UserError: for an unknown option or a value of the wrong type

    >>> def pgd(*, steps: int = 20, rate: float = 0.1) -> None: ...
    >>> bind(pgd, {"steps": "40"}, "attack")
    {'steps': 40}
    """
    hints = _hints(function)
    for name in given:
        if name not in defaults(function):
            raise unknown(f"option of {function.__name__}", name, defaults(function), f"{where}.{name}")
    return {name: convert(value, _decodable(hints[name]), f"{where}.{name}") for name, value in given.items()}


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword-only parameters of a function or class with their defaults; REQUIRED for none.

    >>> def pgd(model: object, *, steps: int = 20, rate: float) -> None: ...
    >>> defaults(pgd) == {"steps": 20, "rate": REQUIRED}
    True
    """
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}


def parse_spec(text: str, what: str) -> tuple[str, dict[str, str]]:
    """Split a name with options, as attacks, objectives and models are written on a command line.

    Args:
        text: a name, or a name with options as in "pgd:steps=20,restarts=5"; that of a model or an objective
            may be package.module:callable
        what: the field that the text sets, for messages; its flag has the same name

    Returns:
        The name, and the options as text, to be checked by `bind`.

    Raises:
        UserError: if an option has no value, or options follow the name without a colon

    >>> parse_spec("pgd:steps=20,restarts=5", "attacks")
    ('pgd', {'steps': '20', 'restarts': '5'})
    >>> parse_spec("my_module:Pairing", "objective")
    ('my_module:Pairing', {})
    >>> parse_spec("my_package.nets:build:width=4", "model")
    ('my_package.nets:build', {'width': '4'})
    """
    name, _, settings = text.partition(":")
    called, _, rest = settings.partition(":")
    # "mart:beta" is an option without its value, "my_module:Pairing" a class.
    is_class = what in ("objective", "objectives") and ("." in name or not called.islower())
    if called and "=" not in called and (what == "model" or is_class):
        name, settings = f"{name}:{called}", rest
    words = name.split()
    if len(words) > 1 and all("=" in word for word in words[1:]):
        meant = f"{words[0]}:{','.join(words[1:])}"
        raise UserError(f"{what}: got '{text}', expected '{meant}'{flag_of(what)}")
    options = {}
    for setting in filter(None, settings.split(",")):
        option, equals, value = setting.partition("=")
        if not equals:
            raise UserError(f"{what}: got '{setting}' in '{text}', expected option=value{flag_of(what)}")
        options[option.strip()] = value.strip()
    return name, options


def literal(text: str) -> Any:
    """Read a value as TOML would; what is not TOML is text, and "null" is None.

    >>> literal("0.5"), literal("true"), literal("8/255"), literal("null")
    (0.5, True, '8/255', None)
    """
    if text == "null":
        return None
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # A line break could begin another field; dates are text.
    is_value = len(table) == 1 and isinstance(table["value"], str | list | dict | int | float)
    return table["value"] if is_value else text


def convert(value: Any, wanted: type[Wanted], where: str, *, file: str = "") -> Wanted:
    """Convert a value or a table of values to a type; text is parsed as that type.

    Args:
        value: what was given
        wanted: the type, possibly a dataclass with constraints
        where: the field the value came from; empty for a whole recipe
        file: the file it came from, if there are no flags for its fields

    Raises:
        UserError: for a value that does not fit the type

    >>> convert("0.5", float, "training.lr")
    0.5
    >>> convert("many", int, "training.epochs")
    Traceback (most recent call last):
    soar.errors.UserError: training.epochs: got 'many', expected `int` (flag --training.epochs)
    """
    try:
        converted = msgspec.convert(value, wanted, strict=False)
    except msgspec.ValidationError as error:
        raise _explain(error, value, wanted, where, file) from None
    _check_size(value, where)
    return converted


def _check_size(value: Any, where: str, depth: int = 0) -> None:
    """Check for values that no field takes and that would fail later: huge integers, NaN, deep nesting."""
    if isinstance(value, dict | list | tuple):
        if depth == _DEEPEST:
            raise UserError(f"{where}: nested too deeply, expected at most {_DEEPEST} tables or lists")
        named = value.items() if isinstance(value, dict) else ((None, one) for one in value)
        for name, one in named:
            _check_size(one, where if name is None else f"{where}.{name}".lstrip("."), depth + 1)
    elif isinstance(value, int) and abs(value) >= 2**63:
        raise UserError(f"{where}: got {shown(value)}, expected an integer of 64 bits{flag_of(where)}")
    elif isinstance(value, float) and math.isnan(value):
        raise UserError(f"{where}: got nan, expected a number{flag_of(where)}")


def _explain(error: msgspec.ValidationError, value: Any, wanted: Any, where: str, file: str) -> UserError:
    """Translate "Expected `int`, got `str` - at `$.epochs`" to a message that names field, value and flag."""
    text, _, path = str(error).partition(" - at `$")
    got, kind = value, wanted
    field = where
    for key in filter(None, re.split(r"[.\[\]`]+", path)):
        if isinstance(got, list | tuple):
            got = got[int(key)]
            continue
        got, kind = got[key], _field_type(kind, key)
        field = f"{field}.{key}".lstrip(".")
    missing = re.search(r"missing required field `(.+?)`", text)
    if missing:
        field = f"{field}.{missing.group(1)}".lstrip(".")
        return UserError(f"{file}: {field} is missing" if file else f"{field} is missing{flag_of(field)}")
    allowed = text.removeprefix("Expected ").split(", got")[0]
    if get_origin(kind) is Literal:
        allowed = "one of " + ", ".join(str(choice) for choice in get_args(kind))
    problem = f"{field}: got {shown(got)}, expected {allowed}"
    return UserError(f"{file}: {problem}" if file else problem + flag_of(field))


def _field_type(kind: Any, key: str) -> Any:
    """Return the annotation of a field, without `| None` and without limits."""
    if not hasattr(kind, "__dataclass_fields__"):
        return kind
    hint = get_type_hints(kind, include_extras=False).get(key, kind)
    choices = [choice for choice in get_args(hint) if choice is not type(None)]
    is_optional = get_origin(hint) in (Union, types.UnionType) and len(choices) == 1
    return choices[0] if is_optional else hint


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, of a dataclass and its parents, or of a constructor."""
    if inspect.isclass(function) and not is_dataclass(function):
        return get_type_hints(function.__init__)
    return get_type_hints(function)


def _decodable(hint: Any) -> Any:
    """Remove the types that only Python code can pass, Fraction and functions, from a union."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    kept = [c for c in get_args(hint) if c is not Fraction and get_origin(c) is not Callable]
    return Union[tuple(kept)]  # noqa: UP007 - built at run time
