"""What every table of the paper needs: its networks, and what is measured on each."""

from __future__ import annotations

import shlex
from pathlib import Path

from soar.data.catalog import FETCHABLE, holding
from soar.errors import unknown
from soar.experiments.measuring.measurement import Experiment as Experiment
from soar.experiments.measuring.measurement import Measurement as Measurement
from soar.experiments.measuring.measurement import RowPlan as RowPlan
from soar.experiments.planning.columns import measurement
from soar.experiments.planning.networks import network
from soar.experiments.planning.scales import Scale
from soar.experiments.planning.text_tables import (
    cost_caution,
    cost_rows,
    cost_table,
    theory_rows,
    theory_table,
)
from soar.experiments.planning.wanted import chosen as chosen
from soar.experiments.planning.wanted import jobs as jobs
from soar.experiments.planning.wanted import keys as keys
from soar.paper import tables

TABLES: tuple[str, ...] = (*tables.TABLES, "cost", "theory")
"""the paper's tables in its order, and two made of its text"""

_SAME_NAME = {
    "SOAR-zero init": "soar-zero",
    "SOAR-rand init": "soar-rand",
    "SOAR-random init": "soar-rand",
    "SOAR-PGD1 init": "soar",
    "Beginning of SOAR": "standard",
    "End of SOAR": "soar",
    "CNN6": "cnn6-soar",
    "CNN8": "cnn8-soar",
    "ResNet-10": "soar",
}
_L2_TRAINED = ("ADV", "TRADES")
# What else must be said of a table below the paper's scale.
_ALSO = {"cure_llr": " Every row that was measured is the same narrow ResNet-10, whatever network it names."}


def experiment(table_id: str, scale: Scale, root: Path | None = None) -> Experiment:
    """Give what a table needs at a scale.

    Args:
        table_id: one of TABLES
        scale: how large
        root: the folder of all data sets; rows whose data are not there say so

    Raises:
        UserError: if there is no such table

    >>> from soar.experiments.planning.scales import SCALES
    >>> found = experiment("adv_linf", SCALES["smoke"])
    >>> found.rows[-1].name, found.rows[-1].network, found.rows[0].missing
    ('ResNet / SOAR', 'soar', 'not trained at this scale')
    """
    if table_id == "cost":
        return Experiment(table=cost_table(), rows=cost_rows(scale), caution=cost_caution(scale))
    if table_id == "theory":
        return Experiment(table=theory_table(), rows=theory_rows(), caution="Exact: it needs no network.")
    if table_id not in TABLES:
        raise unknown("table", table_id, TABLES, "soar reproduce TABLE")
    table = tables.load(table_id)
    columns = {column: measurement(table, column, scale) for column in table.columns}
    rows = []
    for row in table.rows:
        name = network_of(table, row.name)
        missing, command = _obstacle(name, table.id, row.name, scale, root)
        rows.append(RowPlan(name=row.name, network=name, columns=columns, missing=missing, command=command))
    caution = scale.caution + ("" if scale.is_full else _ALSO.get(table_id, ""))
    return Experiment(table=table, rows=tuple(rows), caution=caution)


def network_of(table: tables.PaperTable, row: str) -> str:
    """Name the network of a row.

    Args:
        table: the paper's
        row: one of its rows

    >>> network_of(tables.load("adv_l2"), "ResNet / TRADES"), network_of(tables.load("mma"), "20")
    ('trades-l2', 'mma-margin-20')
    """
    group, _, method = row.rpartition(" / ")
    if method in _SAME_NAME:
        return _SAME_NAME[method]
    if table.row_key in ("beta", "margin"):
        return f"{table.id}-{table.row_key}-{method}"
    if table.row_key == "init":
        return {"zero": "foar-zero", "rand": "foar-rand", "PGD1": "foar"}[method]
    name = method.lower()
    if group == "WideResNet" and name != "llr":
        return f"wide-{name}"
    if table.norm == "l2" and method in _L2_TRAINED:
        # SOAR is trained on linf balls there too: the paper takes both for the same.
        name = f"{name}-l2"
    return f"svhn-{name}" if table.dataset == "SVHN" else name


def _obstacle(name: str, table_id: str, row: str, scale: Scale, root: Path | None) -> tuple[str, str]:
    """Say why a row cannot be measured, and the command that would do it or lead to it; else nothing."""
    if name.startswith("wide-") and not scale.is_full:
        return (
            "not trained at this scale",
            f"soar reproduce {table_id} --scale paper --only {shlex.quote(row)}",
        )
    data = network(name, scale, 0).recipe.data.name
    if data in FETCHABLE and holding(data, root).missing():
        return f"no {data} data", f"soar data fetch {data}"
    return "", ""
