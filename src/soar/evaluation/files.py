"""Read and write the JSON files of evaluations: whole or not at all, a clear line where they are damaged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
import torch
from torch import Tensor

from soar import epsilon, files
from soar.errors import UserError
from soar.evaluation.shapes import SHAPES
from soar.threat import Threat

T = TypeVar("T")


def plain_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as the plain values that are stored."""
    return {one.name: plain(getattr(record, one.name)) for one in fields(record)}


def plain(value: Any) -> Any:
    """Return a value as it is stored: dictionaries, lists, numbers and texts.

    >>> from soar.threat import Linf
    >>> plain((Linf("8/255"), torch.tensor([3, 1]), torch.tensor([True, False])))
    [{'norm': 'linf', 'eps': '8/255'}, [3, 1], '10']
    """
    if isinstance(value, Tensor):
        return bits(value) if value.dtype == torch.bool else value.tolist()
    if isinstance(value, Threat):
        return {"norm": value.norm_name, "eps": epsilon.show(value.eps)}
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if is_dataclass(value):
        return plain_fields(value)
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def tensor_of(stored: str | list[int] | None) -> Tensor | None:
    """Return flags or whole numbers as a tensor again, after `plain`."""
    if stored is None:
        return None
    return (
        from_bits(stored)
        if isinstance(stored, str)
        else torch.tensor(stored, dtype=torch.int64, device="cpu")
    )


def bits(flags: Tensor) -> str:
    """Return flags as a line of 0 and 1, which a person can read and a diff can show.

    >>> bits(torch.tensor([True, False, True]))
    '101'
    """
    return "".join("1" if flag else "0" for flag in flags.tolist())


def from_bits(text: str) -> Tensor:
    """Return the flags that `bits` wrote."""
    return torch.tensor([character == "1" for character in text], dtype=torch.bool, device="cpu")


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write a JSON file, whole or not at all: a line for each field, lists of plain values on one line."""
    files.write(path, as_text(content) + "\n")


def as_text(value: Any, depth: int = 0) -> str:
    """Write a value as JSON that a person can read and a diff can show.

    Args:
        value: plain values; a number that is not finite becomes null, for which JSON has no word
        depth: how far the value is from the outside

    >>> print(as_text({"index": [0, 1, 2], "of": [{"a": math.nan}], "none": {}}))
    {
     "index": [0, 1, 2],
     "of": [
      {
       "a": null
      }
     ],
     "none": {}
    }
    """
    before = "\n" + " " * (depth + 1)
    after = "\n" + " " * depth
    if isinstance(value, dict) and value:
        lines = (f"{json.dumps(str(name))}: {as_text(one, depth + 1)}" for name, one in value.items())
        return "{" + before + f",{before}".join(lines) + after + "}"
    if isinstance(value, list | tuple):
        if any(isinstance(one, dict | list | tuple) for one in value):
            return "[" + before + f",{before}".join(as_text(one, depth + 1) for one in value) + after + "]"
        return "[" + ", ".join(as_text(one) for one in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return json.dumps(value)


def read_json(
    path: Path,
    *,
    kind: str,
    version: int,
    oldest: int | None = None,
    make: Callable[[dict[str, Any]], T],
) -> T:
    """Read a JSON file that this software wrote.

    Args:
        path: the file
        kind: what it should hold, such as "assessment"
        version: of the format
        oldest: the oldest version that can be read, too; it only lacks fields that have a default
        make: turns the plain values into what they stand for

    Raises:
        UserError: if the file cannot be read, is damaged, holds something else or is of another version
    """
    stored = _stored(path, kind)
    got = stored["format"]
    if type(got) is not int or not (oldest or version) <= got <= version:
        raise UserError(
            f"{path}: got version {got!r} of the {kind} format, expected {version};"
            " it was written by another version of soar"
        )
    try:
        checked = msgspec.convert(stored, SHAPES.get(kind, dict))
        return make(msgspec.to_builtins(checked))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: damaged {kind} ({_one_line(error)})") from None


def _stored(path: Path, kind: str) -> dict[str, Any]:
    """Return the plain values of a file of this kind, in whatever version."""
    wanted = f"expected {_article(kind)} written by soar"
    try:
        stored = json.loads(path.read_bytes().decode(), parse_constant=_refuse, parse_float=_finite)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file, {wanted}") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: damaged or not JSON from line {error.lineno} on, {wanted}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged {kind} ({_one_line(error)})") from None
    if not isinstance(stored, dict) or "format" not in stored:
        raise UserError(f"{path}: JSON of something else, {wanted}")
    if stored.get("kind", kind) != kind:
        got = next((one for one in SHAPES if one == stored["kind"]), None)
        raise UserError(f"{path}: got {_article(got) if got else 'something else'}, {wanted}")
    return stored


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number that JSON knows")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _one_line(error: Exception) -> str:
    """Return what is wrong in one line of moderate length, where msgspec quotes and Python does not."""
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:200]} ..."
