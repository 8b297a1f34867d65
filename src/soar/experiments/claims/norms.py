"""Claims about l2 attacks on CIFAR-10, and about SVHN."""

from __future__ import annotations

from soar.experiments.claims.checks import All, At, LosesMore, Near
from soar.experiments.claims.claim import Claim
from soar.experiments.claims.phrases import falls, higher, highest, loses_most, lowest

_ROWS = ("ResNet / ADV", "ResNet / TRADES", "ResNet / SOAR")
_METHODS = ("ADV", "TRADES", "SOAR")
_PGD = ("PGD20", "PGD100", "PGD200", "PGD1000", "PGD20-50")
_RADII = ("eps=60/255", "eps=120/255", "eps=255/255")

ADV_L2 = (
    Claim(
        "SOAR is the most robust under l2 PGD at every eps.",
        "appendix E.5",
        highest("ResNet / SOAR", _ROWS, *_RADII, "eps=1.74"),
    ),
    Claim(
        "The others fall off as eps grows, SOAR less: from 60/255 to 1.74 both lose more than SOAR.",
        "appendix E.5",
        All(*(LosesMore(row, "ResNet / SOAR", "eps=60/255", "eps=1.74") for row in _ROWS[:2])),
    ),
    Claim(
        "Under transferred l2 attacks SOAR is second: behind ADV, before TRADES.",
        "appendix E.5",
        All(
            higher("ResNet / ADV", "ResNet / SOAR", "Transfer"),
            higher("ResNet / SOAR", "ResNet / TRADES", "Transfer"),
        ),
    ),
)

CIFAR10_L2_AUTOATTACK = (
    Claim(
        "SOAR is the most robust under APGD-CE at every eps.",
        "section 5.3",
        highest("SOAR", _METHODS, "APGD-CE@1.74", "APGD-CE@1.0", "APGD-CE@0.5"),
    ),
    Claim(
        "SOAR is last under targeted APGD-DLR and targeted FAB at 1.74.",
        "section 5.3",
        lowest("SOAR", _METHODS, "APGD-DLR-T@1.74", "FAB-T@1.74"),
    ),
    Claim(
        "Of the four attacks at 1.74, targeted APGD-DLR breaks SOAR most often.",
        "its numbers",
        All(*(falls("SOAR", f"{one}@1.74", "APGD-DLR-T@1.74") for one in ("APGD-CE", "FAB-T", "Square"))),
    ),
    Claim(
        "The loss matters: from APGD-CE to targeted APGD-DLR at 1.74, SOAR loses more than any other.",
        "section 5.3",
        loses_most("SOAR", _METHODS, "APGD-CE@1.74", "APGD-DLR-T@1.74"),
    ),
    Claim(
        "SOAR stands better at the smaller eps: from 0.5 to 1.74 it loses most under targeted APGD-DLR.",
        "section 5.3",
        loses_most("SOAR", _METHODS, "APGD-DLR-T@0.5", "APGD-DLR-T@1.74"),
    ),
    Claim(
        "More robust at 1.74 does not mean more robust at 0.5: under Square, ADV and SOAR change places.",
        "its numbers",
        All(higher("ADV", "SOAR", "Square@1.74"), higher("SOAR", "ADV", "Square@0.5")),
    ),
)

SVHN_WHITEBOX = (
    Claim(
        "SOAR beats TRADES under FGSM and every PGD attack.",
        "bold print",
        higher("SOAR", "TRADES", "FGSM", *_PGD),
    ),
    Claim(
        "SOAR beats ADV under FGSM, PGD-20 and PGD-100.",
        "bold print",
        higher("SOAR", "ADV", "FGSM", "PGD20", "PGD100"),
    ),
    Claim(
        "SOAR gives up little clean accuracy: less than 5 points below the undefended network.",
        "appendix E.6",
        higher("SOAR", "Standard", "Standard", by=-5.0),
    ),
    Claim("SOAR has more clean accuracy than TRADES.", "its numbers", higher("SOAR", "TRADES", "Standard")),
)

SVHN_BLACKBOX = (
    Claim("SOAR beats TRADES under SimBA.", "appendix E.6", higher("SOAR", "TRADES", "SimBA")),
    Claim(
        "SOAR beats TRADES under transferred attacks.",
        "bold print",
        higher("SOAR", "TRADES", "PGD20", "PGD1000"),
    ),
    Claim(
        "Its lead is smaller under transferred attacks: TRADES loses more from PGD-20 to SimBA.",
        "appendix E.6",
        LosesMore("TRADES", "SOAR", "PGD20", "SimBA"),
    ),
)

SVHN_L2 = (
    Claim(
        "SOAR beats TRADES under l2 PGD at every eps.",
        "appendix E.6",
        higher("SOAR", "TRADES", *_RADII, "eps=1.739"),
    ),
    Claim(
        "Under transferred l2 attacks the two are alike, within 3 points.",
        "appendix E.6",
        Near(At("SOAR", "Transfer"), At("TRADES", "Transfer"), points=3.0),
    ),
    Claim(
        "SOAR gives up little clean accuracy: less than 5 points below the undefended network.",
        "appendix E.6",
        higher("SOAR", "Standard", "Standard", by=-5.0),
    ),
)
