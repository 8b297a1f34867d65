"""Hold the paper's claims against a table of numbers."""

from __future__ import annotations

from soar.errors import unknown
from soar.experiments.claims import inside, linf, norms, sweeps, text
from soar.experiments.claims.claim import Claim, Judged
from soar.experiments.table_result import TableResult

_CLAIMS: dict[str, tuple[Claim, ...]] = {
    "adv_linf": linf.ADV_LINF,
    "bbox": linf.BBOX,
    "autoattack_linf": linf.AUTOATTACK_LINF,
    "relaxation": inside.RELAXATION,
    "confidence": inside.CONFIDENCE,
    "cure_llr": inside.CURE_LLR,
    "soar_complete": inside.SOAR_COMPLETE,
    "number-of-samples": inside.NUMBER_OF_SAMPLES,
    "adv_l2": norms.ADV_L2,
    "cifar10_l2_autoattack": norms.CIFAR10_L2_AUTOATTACK,
    "svhn_whitebox": norms.SVHN_WHITEBOX,
    "svhn_blackbox": norms.SVHN_BLACKBOX,
    "svhn_l2": norms.SVHN_L2,
    "soar-model-capacity": inside.CAPACITY,
    "adv_linf_with_std": linf.ADV_LINF_WITH_STD,
    "bbox_with_std": linf.BBOX_WITH_STD,
    "trades": sweeps.TRADES,
    "mart": sweeps.MART,
    "mma": sweeps.MMA,
    "foar": inside.FOAR,
    "cost": text.COST,
    "theory": text.THEORY,
}


def claims(table_id: str) -> tuple[Claim, ...]:
    """Give the paper's claims about one of its tables.

    Args:
        table_id: one of soar.experiments.planning.experiments.TABLES

    Raises:
        UserError: if there is no such table
    """
    if table_id not in _CLAIMS:
        raise unknown("table", table_id, _CLAIMS, "soar reproduce TABLE")
    return _CLAIMS[table_id]


def judge(table_id: str, result: TableResult) -> tuple[Judged, ...]:
    """Hold every claim about a table against our numbers.

    Args:
        table_id: one of soar.experiments.planning.experiments.TABLES
        result: cells with what was measured; what is missing leaves claims undecided

    Raises:
        UserError: if there is no such table
    """
    judged = []
    for claim in claims(table_id):
        found = claim.check.look(result.rows)
        judged.append(Judged(claim, found.verdict, found.why))
    return tuple(judged)
