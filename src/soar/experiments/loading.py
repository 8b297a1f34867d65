"""Experiments as TOML files: networks trained by recipes, what is measured on them, what the paper claims.

    title = "..."                # what it shows, in one line
    recipe = "demo-soar"         # of the networks that name none
    examples = 1000              # test images; those of the scale where the file has scales
    unit = "percent"             # of all numbers
    row_key = "training"         # what a row is
    selects = false              # whether rows are values of one parameter, the best of which is selected
    shared = "networks.toml"     # a file beside this one with more networks, and the scales
    caution = "{scale} ..."      # how it differs from the paper's experiment; {scale} is the scale's own caution
    columns = [...]              # name, kind, source (a network) and options of the measurement
    rows = [...]                 # name, network, options (for every column), paper and paper_std (numbers in the
                                 # order of the columns, "-" for a dash); in place of a network the keys of one

    [fields]                     # of the recipes of all networks
    [options]                    # of the measurements of all columns
    [groups]                     # lists of rows or columns that claims name
    [networks.NAME]              # title, about, recipe, start_from (a network before this one), fields;
                                 # like: networks before this one to take all of that from; seed: added to the
                                 # recipe's; size = "paper": not trained below that scale; smoke: fields there
    [[claims]]                   # text, source, checks (see `claims.CheckTable`)

A table whose keys are all scales, such as `{ small = 4, paper = 200 }`, stands for its value at the scale; the
smoke scale takes that of small where it has none of its own, and a value that a scale lacks is as if not written.

A column of kind "assessment" (attacks, split) has no name: it stands for a column of clean accuracy, one for each
attack and one of the worst case. One of kind "record" (what) reads what training wrote. A transfer column is left
out in the row of its own source.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from soar import recipes
from soar.data.catalog import FETCHABLE, holding
from soar.errors import UserError, unknown
from soar.evaluation.assessment import CLEAN, WORST
from soar.evaluation.suites import resolve
from soar.experiments.claims import CheckTable, Claim
from soar.experiments.experiment import RECORD, Experiment, Measurement, Row, Training
from soar.experiments.networks import (
    FOLDER,
    SCALES,
    Networks,
    NetworkTable,
    Scale,
    Table,
    at_scale,
    check_fields,
    scales,
    typed,
)

ATTACKS = ("pgd:steps=20", "pgd:steps=20,loss=margin")
"""what networks are attacked with where a file does not say"""
_TABLES = (
    *("adv_linf", "autoattack_linf", "soar_complete", "foar", "bbox", "confidence", "number-of-samples"),
    *("relaxation", "soar-model-capacity", "cure_llr", "trades", "mart", "mma", "adv_l2"),
    *("cifar10_l2_autoattack", "svhn_whitebox", "svhn_blackbox", "svhn_l2"),
    *("adv_linf_with_std", "bbox_with_std", "cost", "theory"),
)
_SELF_CONTAINED = ("clean", "assessment", RECORD)
_KINDS = ("accuracy", "transfer", "confidence", "relaxation", "samples", "cost", "theory", *_SELF_CONTAINED)


@dataclass(frozen=True, kw_only=True)
class RowTable(NetworkTable):
    """An entry of `rows`."""

    name: str
    network: str = ""
    options: Table = field(default_factory=dict)
    paper: tuple[float | Literal["-"], ...] = ()
    paper_std: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ClaimTable:
    """An entry of `claims`."""

    text: str
    source: str = ""
    checks: tuple[CheckTable, ...]


@dataclass(frozen=True, kw_only=True)
class File:
    """A whole file."""

    title: str
    recipe: str = ""
    examples: Annotated[int, Meta(ge=1)] = 1000
    unit: str = "percent"
    row_key: str = "training"
    selects: bool = False
    shared: str = ""
    caution: str = "{scale}"
    columns: tuple[Table, ...] = (
        {"kind": "assessment"},
        {"name": "trained in", "kind": RECORD, "what": "seconds"},
    )
    rows: tuple[RowTable, ...]
    fields: Table = field(default_factory=dict)
    options: Table = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    networks: dict[str, Table] = field(default_factory=dict)
    claims: tuple[ClaimTable, ...] = ()


def tables() -> tuple[str, ...]:
    """Return the names of the paper's tables, those that matter most for its claims first."""
    return _TABLES


def studies() -> list[str]:
    """Return the names of the studies that come with the package."""
    return sorted(path.stem for path in (FOLDER / "studies").glob("*.toml"))


def scale(name: str) -> Scale:
    """Return a scale of the paper's tables by its name.

    Raises:
        UserError: if there is none of that name
    """
    if name not in SCALES:
        raise unknown("scale", name, SCALES, "flag --scale")
    return SCALES[name]


def load(
    name: str,
    *,
    scale: str = "",
    flags: Sequence[str] = (),
    examples: int | None = None,
    root: Path | None = None,
) -> Experiment:
    """Load an experiment by name or from a TOML file.

    Args:
        name: a table of the paper, a study, or a path that ends in .toml
        scale: how large, where the file has scales; small by default
        flags: recipe fields for all networks that override everything, such as ("--epochs", "1")
        examples: number of test images, in place of the file's or the scale's
        root: the folder of all data sets; rows whose data are not there say so

    Raises:
        UserError: if there is no such experiment or scale, or the file makes no sense

    >>> found = load("adv_linf", scale="smoke")
    >>> found.rows[-1].name, found.rows[-1].network, found.rows[0].missing
    ('ResNet / SOAR', 'soar', 'not trained at this scale')
    """
    if name.endswith(".toml"):
        path = Path(name)
    elif name in tables():
        path = FOLDER / "paper" / f"{name}.toml"
    elif name in studies():
        path = FOLDER / "studies" / f"{name}.toml"
    else:
        raise unknown("experiment", name, [*tables(), *studies(), "FILE.toml"], "a table, a study or a file")
    table = recipes.read(path)
    shared = table.get("shared")
    beside = recipes.read(path.parent / shared) if isinstance(shared, str) else {}
    return from_table(table, name, beside, scale=scale, flags=flags, examples=examples, root=root)


def from_table(
    table: Table,
    origin: str,
    shared: Table | None = None,
    *,
    scale: str = "",
    flags: Sequence[str] = (),
    examples: int | None = None,
    root: Path | None = None,
) -> Experiment:
    """Check the content of a TOML file and make it an experiment.

    Args:
        table: what the file says
        origin: the file, for messages
        shared: what the file says that it shares networks with
        scale: as in `load`
        flags: as in `load`
        examples: as in `load`
        root: as in `load`

    Raises:
        UserError: if the file makes no sense
    """
    known = scales(shared or {})
    if scale and scale not in known:
        raise (
            unknown("scale", scale, known, "flag --scale")
            if known
            else UserError(
                f"{origin}: got scale {scale}, expected none: the file has no scales (flag --scale)"
            )
        )
    size = (scale or "small") if known else ""
    settings = known.get(size)
    file = _file(at_scale(table, size), origin)
    networks = Networks(
        tables={**(shared or {}).get("networks", {}), **table.get("networks", {}), **_in_rows(table)},
        origin=origin,
        scale=size,
        settings=settings,
        recipe=file.recipe,
        fields=file.fields,
        flags=flags,
    )
    columns = dict(_columns(file, networks, origin))
    rows = tuple(_row(row, file, columns, networks, examples, root) for row in file.rows)
    return Experiment(
        name=Path(origin).stem,
        title=file.title,
        rows=rows,
        columns=tuple(columns),
        trainings=_trainings(rows, networks),
        unit=file.unit,
        row_key=file.row_key,
        scale=size,
        caution=file.caution.replace("{scale}", settings.caution if settings else "").strip(),
        claims=tuple(_claims(file, columns, origin)),
        selects=file.selects,
    )


def folder_name(row: str) -> str:
    """Return the name of the folder of a row's network.

    >>> folder_name("SOAR, h = 0.5")
    'soar-h-0.5'
    """
    kept = [character if character.isalnum() or character in ".-" else " " for character in row.lower()]
    return "-".join("".join(kept).split())


def _file(table: Table, origin: str) -> File:
    """Check everything but networks."""
    parts = [(table.get("rows"), RowTable), (table.get("claims"), ClaimTable)]
    for entries, kind in parts:
        for entry in entries if isinstance(entries, list) else ():
            check_fields(entry, kind, origin)
    file = typed(table, File, origin)
    if not file.rows:
        raise UserError(f"{origin}: got no rows, expected at least one (field rows)")
    folders: list[str] = []
    for row in file.rows:
        folder = folder_name(row.name)
        if not folder.strip("."):
            raise UserError(f"{origin}: got a row called '{row.name}', expected a name (field rows.name)")
        if folder in folders:
            raise UserError(f"{origin}: got two rows called '{row.name}' (field rows.name)")
        folders.append(folder)
    return file


def _in_rows(table: Table) -> dict[str, Table]:
    """Return the networks that rows describe themselves, named like the rows."""
    keys = NetworkTable.__dataclass_fields__
    rows = [row for row in table["rows"] if "network" not in row]
    return {row["name"]: {key: value for key, value in row.items() if key in keys} for row in rows}


def _columns(file: File, networks: Networks, origin: str) -> Iterator[tuple[str, Measurement]]:
    """Return what each column measures, before the row has its say."""
    for table in file.columns:
        options = dict(table)
        kind, name, source = (str(options.pop(key, "")) for key in ("kind", "name", "source"))
        if kind not in _KINDS:
            raise unknown("kind", kind, _KINDS, f"{origin}: columns.kind")
        if kind == "assessment":
            yield from _assessment(**options)
            continue
        if not name:
            raise UserError(f"{origin}: columns.name is missing")
        if source not in networks.tables if source else kind == "transfer":
            raise unknown("network", source, networks.tables, f"{origin}: source of '{name}'")
        if kind not in _SELF_CONTAINED:
            options = {**file.options, **options}
        yield name, Measurement(kind=kind, options=options, sources=(source,) if source else ())


def _assessment(attacks: Sequence[str] = ATTACKS, split: str = "test") -> Iterator[tuple[str, Measurement]]:
    """Return the columns of an assessment, all of them parts of one measurement."""
    options = {"attacks": list(attacks), "split": split}
    for name in (CLEAN, *(one.attack.label for one in resolve(attacks)), WORST):
        yield name, Measurement(kind="assessment", options=options, part=name)


def _row(
    row: RowTable,
    file: File,
    columns: Mapping[str, Measurement],
    networks: Networks,
    examples: int | None,
    root: Path | None,
) -> Row:
    network, settings = _network(row, file, networks), networks.settings
    measured = {}
    for name, column in columns.items():
        if network in column.sources:
            continue
        options = dict(column.options)
        if column.kind not in _SELF_CONTAINED:
            options |= row.options
        count = examples or file.examples
        if settings is not None:
            options = settings.limited(options, "attack")
            count = examples or settings.examples_for(options.get("attack", ""))
        measured[name] = replace(column, options=options, examples=0 if network is None else count)
    paper = _printed(row, row.paper, columns, networks.origin)
    std = _printed(row, row.paper_std, columns, networks.origin)
    missing, command = _obstacle(network, row.name, networks, root)
    return Row(
        name=row.name,
        network=network,
        columns=measured,
        paper=paper,
        paper_std={name: value for name, value in std.items() if value is not None},
        missing=missing,
        command=command,
    )


def _network(row: RowTable, file: File, networks: Networks) -> str | None:
    """Return the name of a row's network, if its numbers are about one."""
    described = [key for key in NetworkTable.__dataclass_fields__ if getattr(row, key)]
    if not row.network:
        return row.name if described or file.recipe else None
    where = f"{networks.origin}: network of '{row.name}'"
    if described:
        raise UserError(f"{where}: got {described[0]} too, expected a network or the keys of one")
    if row.network not in networks.tables:
        raise unknown("network", row.network, networks.tables, where)
    return row.network


def _printed(
    row: RowTable, numbers: Sequence[float | str], columns: Collection[str], origin: str
) -> dict[str, float | None]:
    """Return numbers of the paper by column."""
    if numbers and len(numbers) != len(columns):
        raise UserError(
            f"{origin}: got {len(numbers)} of the paper's numbers for '{row.name}', expected one for each of the"
            f" {len(columns)} columns"
        )
    return {name: None if one == "-" else float(one) for name, one in zip(columns, numbers, strict=False)}


def _obstacle(network: str | None, row: str, networks: Networks, root: Path | None) -> tuple[str, str]:
    """Return why a row cannot be measured, and the command that would do it or lead to it; else nothing."""
    if network is None:
        return "", ""
    if not networks.is_trained(network):
        command = f"soar reproduce {networks.origin} --scale paper --only {shlex.quote(row)}"
        return "not trained at this scale", command
    data = networks.training(network).recipe.data.name
    if data in FETCHABLE and holding(data, root).missing():
        return f"no {data} data", f"soar data fetch {data}"
    return "", ""


def _trainings(rows: Sequence[Row], networks: Networks) -> dict[str, Training]:
    """Return every network that rows and measurements need, each after the one that it starts from."""
    found: dict[str, Training] = {}

    def add(name: str) -> None:
        if name not in found:
            training = networks.training(name)
            if training.start:
                add(training.start)
            found[name] = training

    for row in rows:
        sources = [name for one in row.columns.values() for name in one.sources]
        for name in dict.fromkeys([*([] if row.network is None else [row.network]), *sources]):
            add(name)
    return found


def _claims(file: File, columns: Collection[str], origin: str) -> Iterator[Claim]:
    rows = [row.name for row in file.rows]
    for one in file.claims:
        checks = [check for part in one.checks for check in part.checks(file.groups, rows, columns, origin)]
        yield Claim(one.text, one.source, tuple(checks))
