"""The paper's numbers in the place of measured ones, to see which claims they bear out."""

from __future__ import annotations

from soar.evaluation.interval import wilson
from soar.experiments.experiment import Experiment
from soar.experiments.result import Cell, Result

_TEST_IMAGES = {"cifar10": 10_000, "svhn": 26_032}
# Every number that the paper prints under SimBA is a multiple of 1/3000: three training runs, 1,000 images.
_SIMBA_IMAGES = 1_000


def printed(table: Experiment) -> Result:
    """Return the paper's own numbers as if they had been measured here.

    A printed standard deviation is that of three training runs; accuracies have the interval of the images,
    since nobody knows which of them were correctly classified. All other numbers have no interval.

    Args:
        table: a table of the paper at paper scale
    """
    images = 0
    if table.unit == "percent" and table.name != "confidence":
        images = _TEST_IMAGES[next(iter(table.networks.values())).recipe.data.name]
    rows = {
        row.name: {
            column: _as_measured(
                value, row.paper_std.get(column), _SIMBA_IMAGES if column == "SimBA" else images
            )
            for column, value in row.paper.items()
        }
        for row in table.rows
    }
    return Result(name=table.name, scale="paper", seeds=3, examples=images, caution="as printed", rows=rows)


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
