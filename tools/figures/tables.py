"""Charts of the paper's tables beside their JSON files: `python -m tools.figures.tables DIR`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tools.figures.bars import bars
from tools.figures.command import carried_out
from tools.figures.curves import curves

from soar import files
from soar.errors import UserError
from soar.experiments.result import Result


def charts(folder: Path) -> dict[str, str]:
    """Return the SVG of every chart by the name of its file.

    Args:
        folder: holds TABLE-SCALE.json files as `soar reproduce` writes them

    Raises:
        UserError: if there are no results, or one is damaged
    """
    found = {}
    for path in sorted(folder.glob("*-*.json")):
        result = Result.load(path)
        found[f"{result.file_name}.svg"] = bars(result)
        if result.validation:
            found[f"{result.file_name}-curves.svg"] = curves(result)
    if not found:
        raise UserError(f"{folder}: there are no TABLE-SCALE.json files; soar reproduce makes them")
    return found


def act(words: Sequence[str]) -> None:
    """Write the charts of a folder; `python -m soar.experiments.show.page` then shows them."""
    if len(words) != 1:
        raise UserError("expected one folder: python -m tools.figures.tables DIR")
    for name, drawn in charts(Path(words[0])).items():
        files.write(Path(words[0]) / name, drawn)
        print(Path(words[0]) / name)


if __name__ == "__main__":
    sys.exit(carried_out(act, sys.argv[1:]))
