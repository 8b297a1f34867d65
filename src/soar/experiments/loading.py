"""Experiments as TOML files: networks trained by recipes, what is measured on them, what the paper claims.

A file has the fields of `schema.ExperimentFile`, such as

    title = "Does a larger step help?"
    recipe = "demo-soar"
    fields.training.epochs = 4

    [[rows]]
    name = "standard"
    recipe = "demo-standard"

    [[rows]]
    name = "step 1"
    start_from = "standard"
    fields.objective.fd_step = 1.0
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from soar import recipes
from soar.data.catalog import FETCHABLE, holding
from soar.errors import UserError, shown, unknown
from soar.evaluation.assessment import CLEAN, WORST
from soar.evaluation.suites import resolve
from soar.experiments.claims import Claim
from soar.experiments.experiment import RECORD, Experiment, Measurement, TableRow
from soar.experiments.networks import Networks
from soar.experiments.schema import (
    AssessmentTable,
    ExperimentFile,
    NetworkTable,
    RowTable,
    Scale,
    SharedFile,
    Table,
    at_scale,
    typed,
)

_FOLDER = Path(__file__).parent
_TABLES = (
    *("adv_linf", "autoattack_linf", "soar_complete", "foar", "bbox", "confidence", "number-of-samples"),
    *("relaxation", "soar-model-capacity", "cure_llr", "trades", "mart", "mma", "adv_l2"),
    *("cifar10_l2_autoattack", "svhn_whitebox", "svhn_blackbox", "svhn_l2"),
    *("adv_linf_with_std", "bbox_with_std", "cost", "theory"),
)
_OWN_OPTIONS = ("clean", "assessment", RECORD)
_WITHOUT_NETWORK = ("cost", "theory")
_ON_NETWORKS = ("accuracy", "transfer", "confidence", "relaxation", "samples")
_KINDS = (*_ON_NETWORKS, *_WITHOUT_NETWORK, *_OWN_OPTIONS)


def tables() -> tuple[str, ...]:
    """Return the names of the paper's tables, those that matter most for its claims first."""
    return _TABLES


def studies() -> list[str]:
    """Return the names of the studies that come with the package."""
    return sorted(path.stem for path in (_FOLDER / "studies").glob("*.toml"))


def load(
    name: str,
    *,
    scale: str = "",
    flags: Sequence[str] = (),
    examples: int | None = None,
    seeds: int = 1,
    root: Path | None = None,
    split: str | None = None,
) -> Experiment:
    """Load an experiment by name or from a TOML file.

    Args:
        name: a table of the paper, a study, or a path that ends in .toml
        scale: how large, where the file has scales; small by default
        flags: recipe fields for all networks that override everything, such as ("--epochs", "1")
        examples: number of test images, in place of the file's or the scale's
        seeds: how many training runs of each network, with the recipe's seed and those after it
        root: the folder of all datasets; rows whose data are not there say so
        split: the images of columns of kind assessment, in place of the file's: test or validation

    Raises:
        UserError: if there is no such experiment or scale, or the file makes no sense

    >>> found = load("adv_linf", scale="smoke")
    >>> found.rows[-1].name, found.rows[-1].network, found.rows[0].missing
    ('ResNet / SOAR', 'soar', 'not trained at this scale')
    """
    path = _path(name)
    table = recipes.read(path)
    beside = table.get("shared", "")
    if not isinstance(beside, str):
        raise UserError(f"{name}: shared: got {shown(beside)}, expected the name of a file beside it")
    shared = typed(recipes.read(path.parent / beside) if beside else {}, SharedFile, beside)
    size = scale or ("small" if shared.scales else "")
    if size and size not in shared.scales:
        raise unknown("scale", size, shared.scales or ["none"], "flag --scale")
    file = _file(at_scale(table, size), name)
    known = [shared.networks, table.get("networks", {}), _in_rows(table)]
    networks = Networks(
        tables=_networks(known, size, name),
        origin=name,
        scale=size,
        settings=typed(shared.scales[size], Scale, f"{file.shared}: scales.{size}") if size else None,
        recipe=file.recipe,
        changes=file.fields,
        flags=recipes.parse(flags),
    )
    made = _Reader(file=file, networks=networks, examples=examples, root=root, split=split).experiment(
        path.stem
    )
    return replace(made, seeds=seeds)


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


def _file(table: Table, origin: str) -> ExperimentFile:
    """Check the file but for what networks and claims refer to."""
    file = typed(table, ExperimentFile, origin)
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


def _networks(groups: Sequence[dict[str, Table]], scale: str, origin: str) -> dict[str, Table]:
    """Join and check tables of networks."""
    found: dict[str, Table] = {}
    for name, table in (one for group in groups for one in group.items()):
        typed(at_scale(table, scale), NetworkTable, f"{origin}: network '{name}'")
        if name in found:
            raise UserError(f"{origin}: got two networks called '{name}' (fields networks and rows)")
        found[name] = table
    return found


def _in_rows(table: Table) -> dict[str, Table]:
    """Return the networks that rows describe themselves, named like the rows."""
    keys = NetworkTable.__dataclass_fields__
    rows = [row for row in table["rows"] if not row.get("network")]
    return {row["name"]: {key: row[key] for key in row if key in keys} for row in rows}


def _assessment(table: AssessmentTable) -> dict[str, Measurement]:
    """Return the columns of an assessment, all of them parts of one measurement."""
    options = {"attacks": list(table.attacks), "split": table.split}
    parts = (CLEAN, *(one.attack.label for one in resolve(table.attacks)), WORST)
    return {part: Measurement(kind="assessment", options=options, part=part) for part in parts}


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Makes an experiment of a file."""

    file: ExperimentFile
    networks: Networks
    examples: int | None
    root: Path | None
    split: str | None

    def experiment(self, name: str) -> Experiment:
        file, settings = self.file, self.networks.settings
        columns = self.columns()
        rows = tuple(self.row(row, columns) for row in file.rows)
        for row in rows:
            for one in [row.network, *(name for column in row.columns.values() for name in column.sources)]:
                if one:
                    self.networks.network(one)
        return Experiment(
            name=name,
            title=file.title,
            rows=rows,
            columns=tuple(columns),
            networks=self.networks.made,
            unit=file.unit,
            row_key=file.row_key,
            scale=self.networks.scale,
            caution=file.caution.replace("{scale}", settings.caution if settings else ""),
            claims=tuple(self.claims(columns)),
            selects=file.selects,
        )

    def columns(self) -> dict[str, Measurement]:
        """Return what each column measures, where the row does not say more."""
        origin, known = self.networks.origin, self.networks.tables
        found: dict[str, Measurement] = {}
        for table in self.file.columns:
            options = dict(table)
            kind, name, source = (str(options.pop(key, "")) for key in ("kind", "name", "source"))
            if kind not in _KINDS:
                raise unknown("kind", kind, _KINDS, f"{origin}: columns.kind")
            if kind == "assessment":
                chosen = {} if self.split is None else {"split": self.split}
                found |= _assessment(typed(options | chosen, AssessmentTable, origin))
                continue
            if not name or name in found:
                got = f"two columns called '{name}'" if name else "a column without a name"
                raise UserError(f"{origin}: got {got} (field columns.name)")
            if source not in known if source else kind == "transfer":
                raise unknown("network", source, known, f"{origin}: source of '{name}'")
            if kind not in _OWN_OPTIONS:
                options = {**self.file.options, **options}
            found[name] = Measurement(kind=kind, options=options, sources=(source,) if source else ())
        return found

    def row(self, row: RowTable, columns: dict[str, Measurement]) -> TableRow:
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
        return TableRow(
            name=row.name,
            network=network,
            columns=measured,
            paper={name: None if one == "-" else one for name, one in zip(columns, row.paper, strict=False)},
            paper_std=dict(zip(columns, row.paper_std, strict=False)),
            seeds=row.seeds,
            missing=missing,
            command=command,
        )

    def network(self, row: RowTable) -> str | None:
        """Return the name of a row's network; None where there is none."""
        described = [key for key in NetworkTable.__dataclass_fields__ if getattr(row, key)]
        where = f"{self.networks.origin}: network of '{row.name}'"
        if not row.network:
            if described or self.file.recipe:
                return row.name
            if any(column.get("kind") not in _WITHOUT_NETWORK for column in self.file.columns):
                raise UserError(f"{where}: recipe is missing")
            return None
        if described:
            raise UserError(f"{where}: got {described[0]} too, expected a network or the keys of one")
        if row.network not in self.networks.tables:
            raise unknown("network", row.network, self.networks.tables, where)
        return row.network

    def obstacle(self, row: str, network: str) -> tuple[str, str]:
        """Return why a row cannot be measured and the command that helps; nothing where it can."""
        if self.networks.size(network) != self.networks.scale:
            command = f"soar reproduce {self.networks.origin} --scale paper --only {shlex.quote(row)}"
            return "not trained at this scale", command
        data = self.networks.network(network).recipe.data.name
        if data in FETCHABLE and holding(data, self.root).missing():
            return f"no {data} data", f"soar data fetch {data}"
        return "", ""

    def claims(self, columns: dict[str, Measurement]) -> Iterator[Claim]:
        rows, origin = [row.name for row in self.file.rows], self.networks.origin
        for one in self.file.claims:
            checks = (check.named(rows, columns, self.file.groups, origin) for check in one.checks)
            yield replace(one, checks=tuple(checks))
