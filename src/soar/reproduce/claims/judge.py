"""Hold the paper's claims against a table of numbers."""

from __future__ import annotations

from soar.errors import unknown
from soar.evaluation.interval import wilson
from soar.paper.tables import PaperTable
from soar.reproduce.claims import inside, linf, norms, sweeps, text
from soar.reproduce.claims.claim import Claim, Judged
from soar.reproduce.table_result import Cell, TableResult

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
_TEST_IMAGES = {"CIFAR-10": 10_000, "SVHN": 26_032}
# Every number that the paper prints under SimBA is a multiple of 1/3000: three trainings, 1,000 images.
_SIMBA_IMAGES = 1_000


def claims(table_id: str) -> tuple[Claim, ...]:
    """Give the paper's claims about one of its tables.

    Args:
        table_id: one of soar.reproduce.planning.experiments.TABLES

    Raises:
        UserError: if there is no such table
    """
    if table_id not in _CLAIMS:
        raise unknown("table", table_id, _CLAIMS, "soar reproduce TABLE")
    return _CLAIMS[table_id]


def judge(table_id: str, result: TableResult) -> tuple[Judged, ...]:
    """Hold every claim about a table against our numbers.

    Args:
        table_id: one of soar.reproduce.planning.experiments.TABLES
        result: cells with what was measured; what is missing leaves claims undecided

    Raises:
        UserError: if there is no such table
    """
    judged = []
    for claim in claims(table_id):
        found = claim.check.look(result.rows)
        judged.append(Judged(claim, found.verdict, found.why))
    return tuple(judged)


def printed(table: PaperTable) -> TableResult:
    """Give the paper's own numbers as if they had been measured here, to see which claims they bear out.

    A printed standard deviation stands for three trainings; accuracies have the interval of the test images,
    since nobody knows which of them were right. All other numbers have no interval.

    Args:
        table: what the paper prints
    """
    images = _TEST_IMAGES[table.dataset] if table.unit == "percent" and table.id != "confidence" else 0
    rows = {
        row.name: {
            column: _as_measured(value, row.std.get(column), _SIMBA_IMAGES if column == "SimBA" else images)
            for column, value in row.values.items()
        }
        for row in table.rows
    }
    return TableResult(
        table=table.id, scale="paper", seeds=3, examples=images, caution="as printed", rows=rows
    )


def _as_measured(value: float | None, std: float | None, images: int) -> Cell:
    if value is None:
        return Cell(missing="the paper prints nothing")
    # Three values with this mean and exactly this standard deviation. Which training gave which is unknown,
    # so columns of one row pair too well; the interval of the images, not paired at all, outweighs that.
    values = (value,) if std is None else (value, value - std, value + std)
    if not images:
        return Cell(paper=value, paper_std=std, values=values)
    low, high = wilson(round(value / 100 * images), images)
    return Cell(paper=value, paper_std=std, values=values, low=100 * low, high=100 * high)
