"""What the TOML file of an experiment may say.

A table whose keys are all scales, such as `{ small = 4, paper = 200 }`, stands for its value at the scale.
The smoke scale takes that of small where it has none of its own, and what a scale lacks is as if it were not
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

from msgspec import Meta

from soar.errors import unknown
from soar.experiments.claims import Claim
from soar.experiments.experiment import RECORD
from soar.options import convert

Table = dict[str, Any]
Wanted = TypeVar("Wanted")
_SCALES = {"smoke", "small", "paper"}


@dataclass(frozen=True, kw_only=True)
class NetworkTable:
    """How a network is trained: a table [networks.NAME]."""

    title: str = ""
    """What readers call it; its name by default."""
    about: str = ""
    """A sentence about it, shown in the plan."""
    like: str | tuple[str, ...] = ()
    """Networks before this one to take all but title and about from; what it says itself comes on top."""
    recipe: str = ""
    """The recipe it is trained with; that of the file by default."""
    start_from: str = ""
    """A network before this one, whose weights it starts from."""
    seed: int = 0
    """Added to the recipe's."""
    size: Literal["", "paper"] = ""
    """Whether it has the paper's size at every scale; then it is trained at that scale only."""
    fields: Table = field(default_factory=dict)
    """Fields of the recipe that differ."""
    smoke: Table = field(default_factory=dict)
    """Fields that differ from what the smoke scale prescribes."""


@dataclass(frozen=True, kw_only=True)
class RowTable(NetworkTable):
    """An entry of `rows`: its network is one of the file's, or else described by the fields of one."""

    name: str
    network: str = ""
    seeds: Annotated[int, Meta(ge=1)] = 1
    """How many training runs it is the mean of, at least; `--seeds` may ask for more."""
    options: Table = field(default_factory=dict)
    """Of the measurements of all columns."""
    paper: tuple[float | Literal["-"], ...] = ()
    """What the paper prints, in the order of the columns."""
    paper_std: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AssessmentTable:
    """Options of a column of kind assessment."""

    attacks: tuple[str, ...] = ("pgd:steps=20", "pgd:steps=20,loss=margin")
    """As in `soar evaluate --attacks`."""
    split: Literal["test", "validation"] = "test"


@dataclass(frozen=True, kw_only=True)
class ExperimentFile:
    """A whole file.

    A column has a name, a kind, options of the measurement and, for transfer, a source: a network, whose own
    row leaves the column out. A column of kind assessment has no name: it stands for one of clean accuracy,
    one for each attack and one for the worst case. One of kind record reads `what` training has written.
    """

    title: str
    """What it shows, in one line."""
    recipe: str = ""
    """Of networks that name none."""
    examples: Annotated[int, Meta(ge=1)] = 1000
    """Number of test images; a scale has its own."""
    unit: str = "percent"
    row_key: str = "training"
    """What a row is."""
    selects: bool = False
    """Whether rows are values of one parameter, the best of which validation selects."""
    shared: str = ""
    """A file beside this one with more networks, and the scales."""
    caution: str = "{scale}"
    """How it differs from what the paper did; {scale} stands for what the scale says about that."""
    columns: tuple[Table, ...] = (
        {"kind": "assessment"},
        {"name": "trained in", "kind": RECORD, "what": "seconds"},
    )
    rows: tuple[RowTable, ...]
    fields: Table = field(default_factory=dict)
    """Of all recipes."""
    options: Table = field(default_factory=dict)
    """Of the measurements of all columns, but those of kind clean, assessment and record."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Rows or columns that claims name together."""
    networks: dict[str, Table] = field(default_factory=dict)
    """Those of `NetworkTable`, by name."""
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large networks, training runs and attacks are: a table [scales.NAME]."""

    examples: int
    """How many test images are attacked."""
    fewer: dict[str, int] = field(default_factory=dict)
    """How many by attacks that need thousands of predictions, by the attack's name."""
    caution: str
    """How experiments differ from the paper's, shown with every number."""
    fields: Table = field(default_factory=dict)
    """Fields of every recipe."""
    limits: dict[str, Table] = field(default_factory=dict)
    """By section of a recipe, what becomes of options that it has: a number is the largest allowed, a text
    takes the place of another. Those of section attack limit measurements."""

    def limited(self, options: Mapping[str, Any], section: str) -> Table:
        """Return options within the limits of a section.

        >>> few = Scale(examples=8, caution="", limits={"attack": {"steps": 2, "queries": 5}})
        >>> few.limited({"steps": 1000, "step_size": "2/255"}, "attack")
        {'steps': 2, 'step_size': '2/255'}
        """
        limits = {name: one for name, one in self.limits.get(section, {}).items() if name in options}
        return dict(options) | {
            name: one if isinstance(one, str) else min(one, options[name]) for name, one in limits.items()
        }


@dataclass(frozen=True, kw_only=True)
class SharedFile:
    """A file of networks and scales that others share."""

    networks: dict[str, Table] = field(default_factory=dict)
    scales: dict[str, Table] = field(default_factory=dict)


def typed(table: Any, kind: type[Wanted], origin: str) -> Wanted:
    """Convert a table of a file to one of these classes.

    Args:
        table: what the file says
        kind: the class
        origin: the file, for messages

    Raises:
        UserError: for an unknown field, a missing one or a value of the wrong type
    """
    _check_fields(table, kind, origin)
    return convert(table, kind, "", file=origin)


def at_scale(value: Any, scale: str) -> Any:
    """Replace tables whose keys are all scales by their value at one; what a scale lacks is left out.

    Args:
        value: a table, a list or anything else of a file
        scale: its name; nothing is replaced when empty

    >>> at_scale({"epochs": {"small": 4, "paper": 200}, "lr": {"paper": 0.1}}, "smoke")
    {'epochs': 4}
    """
    if isinstance(value, list):
        return [at_scale(one, scale) for one in value]
    if not (scale and isinstance(value, dict)):
        return value
    found = {}
    for key, one in value.items():
        if isinstance(one, dict) and one and set(one) <= _SCALES:
            one = one.get(scale, one.get("small") if scale == "smoke" else None)
        if one is not None:
            found[key] = at_scale(one, scale)
    return found


def _check_fields(table: Any, kind: Any, origin: str) -> None:
    """Refuse fields that a class, or one inside it, does not have; msgspec passes over them."""
    known = get_type_hints(kind)
    for key, value in table.items() if isinstance(table, dict) else ():
        if key not in known:
            raise unknown("field", key, known, origin)
        inner = next((one for one in get_args(known[key]) if is_dataclass(one)), None)
        for part in value if inner and isinstance(value, list) else ():
            _check_fields(part, inner, origin)
