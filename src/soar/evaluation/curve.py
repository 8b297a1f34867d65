"""Results at several radii, which show as one table over the radius."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from soar.errors import printable
from soar.evaluation.certificate import Certificate
from soar.evaluation.rendering import Rendered
from soar.evaluation.table import certificate_table, curve

if TYPE_CHECKING:
    from rich.table import Table

    from soar.evaluation.assessment import Assessment
    from soar.evaluation.attack import AdversarialExamples

Result = TypeVar("Result", "Assessment", "AdversarialExamples", Certificate)


class Curve(Rendered, tuple[Result, ...]):
    """A tuple of results of one model on the same images, each at another radius.

    `soar.evaluate`, `soar.attack` and `soar.certify` return one for a list of threats; results that were
    loaded become one by `Curve([first, second])`.
    """

    def __repr__(self) -> str:
        kinds = dict.fromkeys(type(one).__name__ for one in self)
        radii = ", ".join(str(one.threat) for one in self)
        return printable(f"<Curve: {' and '.join(kinds) or 'no results'} at {radii or 'no radius'}>")

    def __rich__(self) -> Table | str:
        if not self:
            return repr(self)
        results: Sequence[Any] = self
        return certificate_table(results) if isinstance(results[0], Certificate) else curve(results)
