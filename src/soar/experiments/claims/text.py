"""Claims of the paper's text that no table of it shows: what a step costs, and the theory."""

from __future__ import annotations

from soar.experiments.claims.checks import Above, All, At, Level
from soar.experiments.claims.claim import Claim
from soar.experiments.claims.phrases import lowest

_RATIO = "relative to ADV"

COST = (
    Claim(
        "A step of SOAR takes fewer passes than one of PGD-10 training.",
        "appendix E.7",
        lowest("SOAR", ("ADV",), "forward", "backward"),
    ),
    Claim(
        "A step of FOAR takes fewer passes than one of SOAR.",
        "appendix E.7",
        lowest("FOAR", ("SOAR",), "forward", "backward"),
    ),
    Claim("SOAR is faster than MART and TRADES.", "appendix E.7", lowest("SOAR", ("MART", "TRADES"), _RATIO)),
    Claim("SOAR is slower than PGD-10 training.", "appendix E.7", Level(At("SOAR", _RATIO), over=1.0)),
)


def _at(row: str) -> At:
    return At(row, "value")


_LINEAR = "linear regression, d 3072:"
_EXPANSION = "linear regression, d 100, eps 0.1:"
_LOGISTIC = "logistic regression, rho 3: penalty"

THEORY = (
    Claim(
        "Gradient descent fits the data and is not robust: its loss rises by more than 1 under attack.",
        "section 2",
        Above(_at(f"{_LINEAR} its loss under attack"), _at(f"{_LINEAR} loss of gradient descent"), by=1.0),
    ),
    Claim(
        "A robust regularizer takes that rise away.",
        "section 2",
        Above(
            _at(f"{_LINEAR} its loss under attack"),
            _at(f"{_LINEAR} robust regularizer, loss under attack"),
            by=1.0,
        ),
    ),
    Claim(
        "For the linear model the second-order expansion is the loss under attack, within 1 %.",
        "appendix A.1",
        All(
            Level(_at(f"{_EXPANSION} second-order loss over robust loss"), over=0.99),
            Level(_at(f"{_EXPANSION} second-order loss over robust loss"), under=1.01),
        ),
    ),
    Claim(
        "Eq. 1 as printed is the loss under attack, within 1 %.",
        "section 2",
        All(
            Level(_at(f"{_EXPANSION} eq. 1 as printed over robust loss"), over=0.99),
            Level(_at(f"{_EXPANSION} eq. 1 as printed over robust loss"), under=1.01),
        ),
    ),
    Claim(
        "Confidence switches the penalty off: with 16 times the logits it is smaller.",
        "section 4.1",
        Above(_at(_LOGISTIC), _at(f"{_LOGISTIC} with 16 times the logits")),
    ),
    Claim(
        "A start inside the ball switches it on again.",
        "section 4.1",
        Above(
            _at(f"{_LOGISTIC} at the start with 16 times the logits"),
            _at(f"{_LOGISTIC} with 16 times the logits"),
        ),
    ),
    Claim(
        "Proposition 1: the printed bound is no less than the maximum.",
        "section 4",
        Level(_at("Proposition 1, rank one, eps 8/255: printed bound over maximum"), over=0.999),
    ),
)
