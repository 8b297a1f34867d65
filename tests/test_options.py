from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from soar.errors import UserError
from soar.options import bind, convert, literal, parse_spec


@dataclass(frozen=True, kw_only=True)
class Parent:
    size: str | float | Fraction = "1"


@dataclass(frozen=True, kw_only=True)
class Child(Parent):
    count: int = 1
    kind: Literal["a", "b"] = "a"
    rule: str | Callable[[int], int] = "r"


class Plain:
    def __init__(self, model: object, *, steps: int = 3, fast: bool = False) -> None: ...


@pytest.mark.parametrize(
    "function, given, expected",
    [
        (Child, {"count": "3", "size": "8/255"}, {"count": 3, "size": "8/255"}),
        (Child, {"rule": "x"}, {"rule": "x"}),
        (Plain, {"steps": "7", "fast": "true"}, {"steps": 7, "fast": True}),
        (Plain, {}, {}),
    ],
)
def test_options_get_the_types_of_the_signature(
    function: Callable[..., Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert bind(function, given, "section") == expected


@pytest.mark.parametrize(
    "given, message",
    [
        ({"cuont": 3}, r"unknown option of Child 'cuont' \(s\.cuont\); did you mean 'count'"),
        ({"count": "x"}, r"s\.count: got 'x', expected `int` \(flag --s\.count\)"),
        ({"kind": "c"}, r"s\.kind: got 'c', expected one of a, b"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        bind(Child, given, "s")


def test_positional_parameters_are_not_options() -> None:
    with pytest.raises(UserError, match="unknown option of Plain 'model'"):
        bind(Plain, {"model": 1}, "s")


@dataclass(frozen=True)
class Inner:
    share: Annotated[float, Meta(gt=0, le=1)]
    names: tuple[int, ...] = ()
    mode: Literal["x", "y"] | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner


@pytest.mark.parametrize(
    "table, message",
    [
        ({"inner": {"share": 2}}, r"inner\.share: got 2, expected `float` <= 1.0 \(flag --inner\.share\)"),
        (
            {"inner": {"share": 1, "names": [1, "b"]}},
            r"inner\.names: got 'b', expected `int` \(flag --inner\.names\)",
        ),
        ({"inner": {"share": 1, "mode": "z"}}, r"inner\.mode: got 'z', expected one of x, y"),
        ({"inner": {}}, r"inner\.share is missing"),
        ({"inner": 3}, r"inner: got 3, expected `object`"),
    ],
)
def test_nested_mistakes_are_named_by_their_path(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        convert(table, Outer, "")


def test_a_file_without_flags_is_named_and_no_flag_is() -> None:
    with pytest.raises(UserError, match=r"^mine\.toml: inner\.share is missing$"):
        convert({"inner": {}}, Outer, "", file="mine.toml")
    with pytest.raises(UserError, match=r"^mine\.toml: inner\.share: got 2, expected `float` <= 1\.0$"):
        convert({"inner": {"share": 2}}, Outer, "", file="mine.toml")


@pytest.mark.parametrize(
    "value, message",
    [
        (float("nan"), r"^a\.b: got nan, expected a number"),
        (2**63, r"^a\.b: got 9223372036854775808, expected an integer of 64 bits"),
        ({"x": {"y": [-(2**64)]}}, r"^a\.b\.x\.y: got -18446744073709551616, expected an integer"),
    ],
)
def test_what_would_fail_far_from_here_is_refused(value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        convert(value, object, "a.b")


def test_a_value_of_the_wrong_kind_may_be_too_long_to_be_written() -> None:
    with pytest.raises(UserError, match="got a number of thousands of digits, expected `str`"):
        convert(16**5000, str, "a.b")
    with pytest.raises(UserError, match="got a number of thousands of digits, expected an integer"):
        convert([16**5000], object, "a.b")


def test_what_is_nested_too_deeply_is_refused() -> None:
    value: Any = 1
    for _ in range(8):
        value = [value]
    assert convert(value, object, "a") == value
    with pytest.raises(UserError, match=r"^a: nested too deeply"):
        convert([value], object, "a")


@pytest.mark.parametrize(
    "text, name, options",
    [
        ("fgsm", "fgsm", {}),
        ("fgsm:", "fgsm", {}),
        ("pgd: steps = 20, restarts=5,", "pgd", {"steps": "20", "restarts": "5"}),
        ("transfer:source=my runs/a", "transfer", {"source": "my runs/a"}),
        ("two words", "two words", {}),
    ],
)
def test_a_name_with_options_is_split(text: str, name: str, options: dict[str, str]) -> None:
    assert parse_spec(text, "attacks") == (name, options)


@pytest.mark.parametrize(
    "text, message",
    [
        ("soar:hvp", r"^things: got 'hvp' in 'soar:hvp', expected option=value \(flag --things\)$"),
        (
            "soar hvp=exact num_directions=2",
            r"^things: got 'soar hvp=exact num_directions=2', expected 'soar:hvp=exact,num_directions=2' \(",
        ),
    ],
)
def test_options_without_colon_or_value_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_spec(text, "things")


@pytest.mark.parametrize(
    "text, name, options",
    [
        ("resnet10:width=8", "resnet10", {"width": "8"}),
        ("my.nets:build", "my.nets:build", {}),
        ("my.nets:build:width=4,path=a:b", "my.nets:build", {"width": "4", "path": "a:b"}),
        ("resnet10:", "resnet10", {}),
    ],
)
def test_the_name_of_a_model_may_be_a_callable_of_a_module(
    text: str, name: str, options: dict[str, str]
) -> None:
    assert parse_spec(text, "model") == (name, options)


@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        ("-1.5", -1.5),
        ("false", False),
        ("'x'", "x"),
        ("[1, 2]", [1, 2]),
        ("null", None),
        ("a b", "a b"),
        ("2020-01-01", "2020-01-01"),
        ("1\nother = 2", "1\nother = 2"),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_text_is_read_as_toml_reads_values(text: str, value: object) -> None:
    assert literal(text) == value
