"""Both sides of the truth: what is certified, and what attacks have left, on the same examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from soar.errors import UserError
from soar.evaluation.assessment import CLEAN, WORST, Assessment
from soar.evaluation.certificate import Certificate
from soar.evaluation.compare import rows_in_common
from soar.evaluation.interval import share_of
from soar.threat import Threat

_SHOWN = 3


@dataclass(frozen=True)
class Bracket:
    """What the robust accuracy lies between on some examples.

    Args:
        threat: what the adversary may do
        method: how examples were certified
        certified: the share of examples that are certified; robust accuracy is at least this
        attacked: the share that all attacks have left; robust accuracy is at most this
        clean: the share that is correctly classified
        examples: how many there are
    """

    threat: Threat
    method: str
    certified: float
    attacked: float
    clean: float
    examples: int


def bracket(certificate: Certificate, found: Assessment) -> Bracket | None:
    """Return what is certified beside what attacks have left, on the examples in common.

    Args:
        certificate: of the model itself
        found: of the same weights and data

    Returns:
        The bracket; None for another threat, for a certificate of the smoothed model, or without examples in
        common.

    Raises:
        UserError: if an attack fooled a certified example
    """
    check(certificate, found)
    mine, theirs = rows_in_common(certificate.index, found.index)
    if certificate.is_smoothed or certificate.threat != found.threat or not len(mine):
        return None
    return Bracket(
        certificate.threat,
        certificate.method,
        share_of(certificate.certified[mine]),
        share_of(found.survivors(WORST)[theirs]),
        share_of(found.survivors(CLEAN)[theirs]),
        len(mine),
    )


def check(certificate: Certificate, found: Assessment) -> None:
    """Check that no attack fooled a certified example; one of the two would be wrong.

    Attacks of a smaller radius count, too. Attacks on the model itself do not concern a
    certificate of the smoothed model.

    Args:
        certificate: what is certified
        found: of the same weights and data

    Raises:
        UserError: if an attack did, with both outcomes
    """
    same_norm = certificate.threat.norm_name == found.threat.norm_name
    if certificate.is_smoothed or not same_norm or found.threat.eps > certificate.threat.eps:
        return
    mine, theirs = rows_in_common(certificate.index, found.index)
    for name, left, predictions in _outcomes(found):
        fooled = certificate.certified[mine] & ~left[theirs]
        if bool(fooled.any()):
            rows, others = mine[fooled], theirs[fooled]
            ends = [None] * len(others) if predictions is None else predictions[others].tolist()
            index, labels = certificate.index[rows].tolist(), certificate.labels[rows].tolist()
            shown = "; ".join(
                f"image {number} is certified as class {label} at {certificate.threat}, and predicted as"
                f" {'another class' if end is None else f'class {end}'} under {name} at {found.threat}"
                for number, label, end in list(zip(index, labels, ends, strict=True))[:_SHOWN]
            )
            more = f"; and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
            raise UserError(
                f"{certificate.method} contradicts an attack: {shown}{more}. The weights or images differ, or"
                " the bound is wrong: do not use this certificate, and please report it"
            )


def _outcomes(found: Assessment) -> Iterator[tuple[str, Tensor, Tensor | None]]:
    """Yield which examples each attack has left, and what is predicted then."""
    yield "no attack", found.correct, found.clean_predictions
    for result in found.attacks:
        yield result.label, result.robust, result.predictions
