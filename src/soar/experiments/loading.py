"""Experiments as TOML files: networks trained by recipes, what is measured on them, what the paper claims.

A file has the fields of `File` and its parts, such as

    title = "Does a larger step help?"
    recipe = "demo-soar"
    fields.training.epochs = 4

    [[rows]]
    name = "standard"
    recipe = "demo-standard"

    [[rows]]
    name = "step 1"
    start_from = "standard"
    fields.objective.step = 1.0

A table whose keys are all scales, such as `{ small = 4, paper = 200 }`, stands for its value at the scale.
The smoke scale takes that of small where it has none of its own, and what a scale lacks is as if it were not
written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from soar import recipes
from soar.data.catalog import FETCHABLE, holding
from soar.errors import UserError, unknown
from soar.evaluation.assessment import CLEAN, WORST
from soar.evaluation.suites import resolve
from soar.experiments.checks import Check
from soar.experiments.claims import Claim
from soar.experiments.experiment import RECORD, Experiment, Measurement, Row, Training
from soar.experiments.networks import Networks, NetworkTable, Scale, Table, at_scale, check_fields, typed

_FOLDER = Path(__file__).parent
_ATTACKS = ("pgd:steps=20", "pgd:steps=20,loss=margin")
_TABLES = (
    *("adv_linf", "autoattack_linf", "soar_complete", "foar", "bbox", "confidence", "number-of-samples"),
    *("relaxation", "soar-model-capacity", "cure_llr", "trades", "mart", "mma", "adv_l2"),
    *("cifar10_l2_autoattack", "svhn_whitebox", "svhn_blackbox", "svhn_l2"),
    *("adv_linf_with_std", "bbox_with_std", "cost", "theory"),
)
_OWN_OPTIONS = ("clean", "assessment", RECORD)
_KINDS = ("accuracy", "transfer", "confidence", "relaxation", "samples", "cost", "theory", *_OWN_OPTIONS)


@dataclass(frozen=True, kw_only=True)
class RowTable(NetworkTable):
    """An entry of `rows`: its network is one of the file's, or described by the keys of one."""

    name: str
    network: str = ""
    options: Table = field(default_factory=dict)
    """Of the measurements of all columns."""
    paper: tuple[float | Literal["-"], ...] = ()
    """What the paper prints, in the order of the columns."""
    paper_std: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ClaimTable:
    """An entry of `claims`."""

    text: str
    source: str = ""
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A file of networks and scales that other files share."""

    networks: dict[str, Table] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class File:
    """A whole file.

    A column has a name, a kind, options of the measurement and, for transfer, a source: a network of the file,
    whose own row leaves the column out. A column of kind assessment (attacks, split) has no name: it stands
    for one of clean accuracy, one for each attack and one for the worst case. One of kind record (what) reads
    what training has written.
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
    claims: tuple[ClaimTable, ...] = ()


SCALES = typed(recipes.read(_FOLDER / "paper" / "networks.toml"), Shared, "networks.toml").scales
"""how large the paper's tables can be made"""


def tables() -> tuple[str, ...]:
    """Return the names of the paper's tables, those that matter most for its claims first."""
    return _TABLES


def studies() -> list[str]:
    """Return the names of the studies that come with the package."""
    return sorted(path.stem for path in (_FOLDER / "studies").glob("*.toml"))


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
    path = _path(name)
    table = recipes.read(path)
    beside = recipes.read(path.parent / str(table["shared"])) if "shared" in table else {}
    shared = typed(beside, Shared, str(table.get("shared")))
    if scale and scale not in shared.scales:
        raise unknown("scale", scale, shared.scales or ["(none)"], f"{name}, flag --scale")
    size = (scale or "small") if shared.scales else ""
    file = _file(at_scale(table, size), name)
    in_rows = {
        row["name"]: {key: row[key] for key in row if key in NetworkTable.__dataclass_fields__}
        for row in table["rows"]
        if "network" not in row
    }
    networks = Networks(
        tables={**shared.networks, **table.get("networks", {}), **in_rows},
        origin=name,
        scale=size,
        settings=shared.scales.get(size),
        recipe=file.recipe,
        changes=file.fields,
        flags=recipes.parse(flags),
    )
    reader = _Reader(file=file, networks=networks, examples=examples, root=root)
    return reader.experiment(path.stem)


def folder_name(row: str) -> str:
    """Return the name of the folder of a row's network.

    >>> folder_name("SOAR, h = 0.5")
    'soar-h-0.5'
    """
    kept = [character if character.isalnum() or character in ".-" else " " for character in row.lower()]
    return "-".join("".join(kept).split())


def _path(name: str) -> Path:
    if name.endswith(".toml"):
        return Path(name)
    if name not in (*tables(), *studies()):
        raise unknown("experiment", name, [*tables(), *studies(), "FILE.toml"], "a table, a study or a file")
    return _FOLDER / ("paper" if name in tables() else "studies") / f"{name}.toml"


def _file(table: Table, origin: str) -> File:
    """Check everything but networks."""
    for key, kind in (("rows", RowTable), ("claims", ClaimTable)):
        entries = table.get(key)
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


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Makes an experiment of a file."""

    file: File
    networks: Networks
    examples: int | None
    root: Path | None

    def experiment(self, name: str) -> Experiment:
        file, settings = self.file, self.networks.settings
        columns = dict(self.columns())
        rows = tuple(self.row(row, columns) for row in file.rows)
        return Experiment(
            name=name,
            title=file.title,
            rows=rows,
            columns=tuple(columns),
            trainings=self.trainings(rows),
            unit=file.unit,
            row_key=file.row_key,
            scale=self.networks.scale,
            caution=file.caution.replace("{scale}", settings.caution if settings else ""),
            claims=tuple(self.claims(columns)),
            selects=file.selects,
        )

    def columns(self) -> Iterator[tuple[str, Measurement]]:
        """Return what each column measures, where the row does not say more."""
        origin, known = self.networks.origin, self.networks.tables
        for table in self.file.columns:
            options = dict(table)
            kind, name, source = (options.pop(key, "") for key in ("kind", "name", "source"))
            if kind not in _KINDS:
                raise unknown("kind", kind, _KINDS, f"{origin}: columns.kind")
            if kind == "assessment":
                asked = {
                    "attacks": list(options.get("attacks", _ATTACKS)),
                    "split": options.get("split", "test"),
                }
                for part in (CLEAN, *(one.attack.label for one in resolve(asked["attacks"])), WORST):
                    yield part, Measurement(kind=kind, options=asked, part=part)
                continue
            if not name:
                raise UserError(f"{origin}: columns.name is missing")
            if source not in known if source else kind == "transfer":
                raise unknown("network", source, known, f"{origin}: source of '{name}'")
            if kind not in _OWN_OPTIONS:
                options = {**self.file.options, **options}
            yield name, Measurement(kind=kind, options=options, sources=(source,) if source else ())

    def row(self, row: RowTable, columns: dict[str, Measurement]) -> Row:
        network, settings = self.network(row), self.networks.settings
        measured = {}
        for name, column in columns.items():
            if network in column.sources:
                continue
            options = dict(column.options) | ({} if column.kind in _OWN_OPTIONS else row.options)
            count = self.examples or self.file.examples
            if settings is not None:
                options = settings.limited(options, "attack")
                count = self.examples or settings.fewer.get(options.get("attack", ""), settings.examples)
            measured[name] = replace(column, options=options, examples=0 if network is None else count)
        for numbers in filter(None, (row.paper, row.paper_std)):
            if len(numbers) != len(columns):
                got = f"got {len(numbers)} numbers of the paper for '{row.name}'"
                raise UserError(
                    f"{self.networks.origin}: {got}, expected {len(columns)}, one for each column"
                )
        missing, command = self.obstacle(row.name, network) if network else ("", "")
        return Row(
            name=row.name,
            network=network,
            columns=measured,
            paper={name: None if one == "-" else one for name, one in zip(columns, row.paper, strict=False)},
            paper_std=dict(zip(columns, row.paper_std, strict=False)),
            missing=missing,
            command=command,
        )

    def network(self, row: RowTable) -> str | None:
        """Return the name of a row's network; None where there is none."""
        described = [key for key in NetworkTable.__dataclass_fields__ if getattr(row, key)]
        if not row.network:
            return row.name if described or self.file.recipe else None
        where = f"{self.networks.origin}: network of '{row.name}'"
        if described:
            raise UserError(f"{where}: got {described[0]} too, expected a network or the keys of one")
        if row.network not in self.networks.tables:
            raise unknown("network", row.network, self.networks.tables, where)
        return row.network

    def obstacle(self, row: str, network: str) -> tuple[str, str]:
        """Return why a row cannot be measured, and the command that would do it or lead to it; else nothing."""
        origin, scale = self.networks.origin, self.networks.scale
        if self.networks.size(network) != scale:
            command = f"soar reproduce {origin} --scale paper --only {shlex.quote(row)}"
            return "not trained at this scale", command
        data = self.networks.training(network).recipe.data.name
        if data in FETCHABLE and holding(data, self.root).missing():
            return f"no {data} data", f"soar data fetch {data}"
        return "", ""

    def trainings(self, rows: Sequence[Row]) -> dict[str, Training]:
        """Return every network that rows and measurements need, each after the one that it starts from."""
        found: dict[str, Training] = {}

        def add(name: str) -> None:
            if name not in found:
                training = self.networks.training(name)
                if training.start:
                    add(training.start)
                found[name] = training

        for row in rows:
            sources = [name for one in row.columns.values() for name in one.sources]
            for name in [*([row.network] if row.network else []), *sources]:
                add(name)
        return found

    def claims(self, columns: dict[str, Measurement]) -> Iterator[Claim]:
        rows = [row.name for row in self.file.rows]
        for one in self.file.claims:
            checks = [
                check.named(rows, columns, self.file.groups, self.networks.origin) for check in one.checks
            ]
            yield Claim(one.text, one.source, tuple(checks))
