"""Claims about the sweeps over the baselines' parameters."""

from __future__ import annotations

from soar.experiments.claims.claim import Claim
from soar.experiments.claims.phrases import higher, highest, peak

_BETAS = ("0.1", "0.5", "1", "3", "5", "7", "9", "11", "13", "15")
_MARGINS = ("12", "20", "32", "48", "60", "72")
_PGD = ("PGD20", "PGD100", "PGD200", "PGD20-50")


def _beta() -> tuple[Claim, ...]:
    """Claims that TRADES and MART share."""
    return (
        Claim("Beta 9 is the best under PGD-20.", "appendix E.12", highest("9", _BETAS, "PGD20")),
        Claim("Beta 9 is the best under every PGD attack.", "bold print", highest("9", _BETAS, *_PGD)),
        Claim("Beta 9 is the best under FGSM.", "bold print", highest("9", _BETAS, "FGSM")),
        Claim(
            "The best beta is in the middle: one inside the range beats both ends under PGD-20.",
            "its numbers",
            peak(_BETAS, "PGD20"),
        ),
        Claim(
            "Too little weight is not robust: beta 9 beats 0.1 under PGD-20.",
            "its numbers",
            higher("9", "0.1", "PGD20"),
        ),
        Claim(
            "Weight costs clean accuracy: beta 0.1 beats 15 without attack.",
            "its numbers",
            higher("0.1", "15", "Standard"),
        ),
    )


TRADES = _beta()
MART = _beta()
MMA = (
    Claim("Margin 32 is the best under PGD-20.", "appendix E.12", highest("32", _MARGINS, "PGD20")),
    Claim("Margin 32 is the best under every PGD attack.", "bold print", highest("32", _MARGINS, *_PGD)),
    Claim("Margin 20 is the best under FGSM.", "bold print", highest("20", _MARGINS, "FGSM")),
    Claim(
        "The best margin is in the middle: one inside the range beats both ends under PGD-20.",
        "its numbers",
        peak(_MARGINS, "PGD20"),
    ),
    Claim(
        "Margin costs clean accuracy: 12 beats 72 without attack.",
        "its numbers",
        higher("12", "72", "Standard"),
    ),
)
