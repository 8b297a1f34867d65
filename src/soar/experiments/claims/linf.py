"""Claims about networks under l_inf attacks on CIFAR-10: the tables of the paper's main part."""

from __future__ import annotations

from soar.experiments.claims.checks import All, At, Level
from soar.experiments.claims.claim import Claim
from soar.experiments.claims.phrases import falls, higher, highest, keeps, loses_most, lowest

_DEFENSES = (
    "ResNet / ADV",
    "ResNet / TRADES",
    "ResNet / MART",
    "ResNet / MMA",
    "ResNet / FOAR",
    "ResNet / SOAR",
)
_STANDARD, _ADV, _FOAR, _SOAR = "ResNet / Standard", "ResNet / ADV", "ResNet / FOAR", "ResNet / SOAR"
_WIDE = ("WideResNet / ADV", "WideResNet / TRADES", "WideResNet / MART", "WideResNet / MMA")
_TRANSFER = ("PGD20-R", "PGD20-W", "PGD1000-R", "PGD1000-W")
_COMPONENTS = ("ADV", "TRADES", "MART", "MMA", "FOAR", "SOAR")

_WHITE_BOX = (
    Claim("SOAR beats ADV under PGD-20.", "section 5.1", higher(_SOAR, _ADV, "PGD20")),
    Claim("SOAR is the most robust ResNet under FGSM.", "bold print", highest(_SOAR, _DEFENSES, "FGSM")),
    Claim(
        "SOAR keeps the highest clean accuracy of the defended ResNets.",
        "its numbers",
        highest(_SOAR, _DEFENSES, "Standard"),
    ),
    Claim(
        "Every defense costs clean accuracy.",
        "its numbers",
        highest(_STANDARD, (_STANDARD, *_DEFENSES), "Standard"),
    ),
    Claim(
        "The undefended ResNet has less than 1 % left under PGD-20.",
        "its numbers",
        Level(At(_STANDARD, "PGD20"), under=1.0),
    ),
    Claim(
        "FOAR helps: it beats the undefended ResNet under PGD-20.",
        "section 5.1",
        higher(_FOAR, _STANDARD, "PGD20"),
    ),
    Claim(
        "First order is not enough: FOAR is below SOAR under PGD-20.",
        "section 5.1",
        higher(_SOAR, _FOAR, "PGD20"),
    ),
    Claim(
        "FOAR is the least robust of the defended ResNets under PGD-20.",
        "section 5.1",
        lowest(_FOAR, _DEFENSES, "PGD20"),
    ),
    Claim(
        "A thousand steps add little: SOAR loses less than 2 points from PGD-20 to PGD-1000.",
        "its numbers",
        keeps(_SOAR, "PGD20", "PGD1000", 2.0),
    ),
    Claim(
        "Restarts add little: SOAR loses less than 2 points from PGD-20 to PGD-20 with 50 restarts.",
        "its numbers",
        keeps(_SOAR, "PGD20", "PGD20-50", 2.0),
    ),
)

ADV_LINF = (
    *_WHITE_BOX,
    Claim(
        "SOAR is the most robust ResNet under every PGD attack.",
        "section 5.1",
        highest(_SOAR, _DEFENSES, "PGD20", "PGD100", "PGD200", "PGD1000", "PGD20-50"),
    ),
    Claim(
        "SOAR on the small network keeps up with defended WideResNets: at most 2 points behind under PGD-20.",
        "section 5.1",
        All(*(higher(_SOAR, wide, "PGD20", by=-2.0) for wide in _WIDE)),
    ),
    Claim(
        "The larger network is more robust: each WideResNet beats its ResNet under PGD-20.",
        "section 5",
        All(*(higher(wide, wide.replace("WideResNet", "ResNet"), "PGD20") for wide in _WIDE)),
    ),
)

ADV_LINF_WITH_STD = (
    *_WHITE_BOX,
    Claim(
        "SOAR is the most robust ResNet under every PGD attack, beyond the spread over trainings.",
        "appendix E.10",
        highest(_SOAR, _DEFENSES, "PGD20", "PGD1000", "PGD20-50"),
    ),
)

_BLACK_BOX = (
    Claim("SOAR is the most robust ResNet under SimBA.", "section 5.2", highest(_SOAR, _DEFENSES, "SimBA")),
    Claim(
        "SOAR is the most robust ResNet under attacks transferred from a ResNet.",
        "section 5.2",
        highest(_SOAR, _DEFENSES, "PGD20-R", "PGD1000-R"),
    ),
    Claim(
        "SOAR is the most robust ResNet under attacks transferred from a WideResNet.",
        "section 5.2",
        highest(_SOAR, _DEFENSES, "PGD20-W", "PGD1000-W"),
    ),
    Claim(
        "FOAR is below SOAR under every black-box attack.",
        "its numbers",
        higher(_SOAR, _FOAR, "SimBA", *_TRANSFER),
    ),
    Claim(
        "SimBA breaks every ResNet more often than a transferred attack does.",
        "section 5.2",
        All(*(falls(row, column, "SimBA") for row in _DEFENSES for column in _TRANSFER)),
    ),
)

BBOX = (
    *_BLACK_BOX,
    Claim(
        "SOAR beats all defended WideResNets, too, under attacks transferred from a WideResNet.",
        "section 5.2",
        highest(_SOAR, _WIDE, "PGD20-W", "PGD1000-W"),
    ),
    Claim("SOAR beats all defended WideResNets under SimBA.", "section 5.2", highest(_SOAR, _WIDE, "SimBA")),
)
BBOX_WITH_STD = _BLACK_BOX

AUTOATTACK_LINF = (
    Claim(
        "SOAR is the most robust under APGD-CE at every eps, as it is under PGD.",
        "section 5.3",
        highest("SOAR", _COMPONENTS, "APGD-CE@8/255", "APGD-CE@6/255", "APGD-CE@4/255"),
    ),
    Claim(
        "SOAR is last under targeted APGD-DLR at 8/255.",
        "its numbers",
        lowest("SOAR", _COMPONENTS, "APGD-DLR-T@8/255"),
    ),
    Claim(
        "SOAR is last under targeted FAB at 8/255.", "its numbers", lowest("SOAR", _COMPONENTS, "FAB-T@8/255")
    ),
    Claim(
        "Of the four attacks at 8/255, targeted APGD-DLR breaks SOAR most often.",
        "section 5.3",
        All(*(falls("SOAR", f"{one}@8/255", "APGD-DLR-T@8/255") for one in ("APGD-CE", "FAB-T", "Square"))),
    ),
    Claim(
        "The loss matters: from APGD-CE to targeted APGD-DLR at 8/255, SOAR loses more than any other.",
        "section 5.3",
        loses_most("SOAR", _COMPONENTS, "APGD-CE@8/255", "APGD-DLR-T@8/255"),
    ),
    Claim(
        "SOAR stands better at the smaller eps: from 4/255 to 8/255 it loses most under targeted APGD-DLR.",
        "section 5.3",
        loses_most("SOAR", _COMPONENTS, "APGD-DLR-T@4/255", "APGD-DLR-T@8/255"),
    ),
    Claim(
        "SOAR is the most robust under Square at 4/255.",
        "bold print",
        highest("SOAR", _COMPONENTS, "Square@4/255"),
    ),
    Claim(
        "More robust at 8/255 does not mean more robust at 4/255: under Square, ADV and SOAR change places.",
        "section 5.3",
        All(higher("ADV", "SOAR", "Square@8/255"), higher("SOAR", "ADV", "Square@4/255")),
    ),
    Claim(
        "SOAR's robustness is not masking alone: Square leaves it more than 10 % at 8/255.",
        "section 5.3",
        Level(At("SOAR", "Square@8/255"), over=10.0),
    ),
    Claim(
        "FOAR is below SOAR under APGD-CE at 8/255.",
        "its numbers",
        higher("SOAR", "FOAR", "APGD-CE@8/255"),
    ),
)
