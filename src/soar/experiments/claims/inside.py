"""Claims about SOAR itself: starts, confidence, samples of z, relaxation, capacity, and its relatives."""

from __future__ import annotations

from soar.experiments.claims.checks import All, At, Check, Level, Near
from soar.experiments.claims.claim import Claim
from soar.experiments.claims.phrases import falls, higher, highest, keeps, lowest, rising

_CHECKPOINTS = ("Beginning of SOAR", "End of SOAR")
_INPUTS = ("Standard", "Random", "PGD1")
_STARTS = ("SOAR-zero init", "SOAR-rand init", "SOAR-PGD1 init")
_WHITE, _TRANSFER = "PGD20 white-box", "PGD20 black-box (R)"
_FOAR_STARTS = ("zero", "rand", "PGD1")
_FOAR_ATTACKS = ("FGSM", "PGD20", "PGD100", "PGD200", "PGD20-50")


def _masks(row: str) -> Check:
    """The white-box attack costs next to nothing, and one that never saw the network does more damage."""
    return All(keeps(row, "Standard", _WHITE, 10.0), falls(row, _WHITE, _TRANSFER))


RELAXATION = (
    Claim(
        "The relaxation is loose: the loss in the l2 ball is larger, before and after SOAR.",
        "appendix B.2",
        All(*(falls(row, "loss_l2", "loss_linf") for row in _CHECKPOINTS)),
    ),
    Claim(
        "SOAR lowers both losses.",
        "its numbers",
        higher("Beginning of SOAR", "End of SOAR", "loss_linf", "loss_l2"),
    ),
)

CONFIDENCE = (
    Claim(
        "SOAR with the zero or the random start is over 99 % confident on every kind of input.",
        "appendix D",
        All(
            *(
                Level(At(row, column), over=99.0)
                for row in ("SOAR-zero init", "SOAR-random init")
                for column in _INPUTS
            )
        ),
    ),
    Claim(
        "With the PGD1 start it is less confident than with either of those.",
        "appendix D",
        lowest("SOAR-PGD1 init", ("SOAR-zero init", "SOAR-random init"), *_INPUTS),
    ),
    Claim(
        "ADV is less confident than SOAR with any start.",
        "its numbers",
        lowest("ADV", ("SOAR-zero init", "SOAR-random init", "SOAR-PGD1 init"), *_INPUTS),
    ),
    Claim(
        "ADV is less confident than the undefended network.",
        "its numbers",
        lowest("ADV", ("Standard",), *_INPUTS),
    ),
)

CURE_LLR = (
    Claim(
        "SOAR beats CURE under PGD-20, on either network.",
        "appendix E.1",
        highest("ResNet-10 / SOAR", ("ResNet-18 / CURE", "WideResNet / CURE"), "PGD20"),
    ),
    Claim(
        "SOAR beats LLR on a larger network under PGD-20.",
        "appendix E.1",
        higher("ResNet-10 / SOAR", "WideResNet / LLR", "PGD20"),
    ),
    Claim(
        "SOAR has the highest clean accuracy of the three.",
        "appendix E.1",
        highest(
            "ResNet-10 / SOAR", ("ResNet-18 / CURE", "WideResNet / CURE", "WideResNet / LLR"), "Standard"
        ),
    ),
)

SOAR_COMPLETE = (
    Claim(
        "The zero start masks: white-box PGD-20 costs less than 10 points, a transferred attack breaks more.",
        "appendix E.3",
        _masks("SOAR-zero init"),
    ),
    Claim(
        "The random start masks in the same way.",
        "appendix E.3",
        _masks("SOAR-rand init"),
    ),
    Claim(
        "The PGD1 start does not: white-box PGD-20 breaks more than a transferred attack.",
        "appendix E.3",
        falls("SOAR-PGD1 init", _TRANSFER, _WHITE),
    ),
    Claim(
        "The PGD1 start is the most robust under transferred attacks.",
        "bold print",
        highest("SOAR-PGD1 init", _STARTS, _TRANSFER),
    ),
    Claim(
        "The PGD1 start costs clean accuracy.", "its numbers", lowest("SOAR-PGD1 init", _STARTS, "Standard")
    ),
)

NUMBER_OF_SAMPLES = (
    Claim(
        "One z is enough: the regularized loss with one z is within 2 % of that with a hundred.",
        "appendix E.4",
        All(*(Near(At(row, "n=1"), At(row, "n=100"), share=0.02) for row in _CHECKPOINTS)),
    ),
    Claim(
        "SOAR lowers the regularized loss.",
        "its numbers",
        higher("Beginning of SOAR", "End of SOAR", "n=1", "n=10", "n=100"),
    ),
)

CAPACITY = (
    Claim(
        "The larger network is more robust: ResNet-10 before CNN8 before CNN6 under every PGD attack.",
        "appendix E.9",
        rising(("CNN6", "CNN8", "ResNet-10"), "PGD20", "PGD100", "PGD200"),
    ),
    Claim(
        "The larger network is also more accurate on clean images.",
        "appendix E.9",
        rising(("CNN6", "CNN8", "ResNet-10"), "Standard"),
    ),
)

FOAR = (
    Claim(
        "The PGD1 start makes FOAR most robust under every white-box attack.",
        "appendix E.13",
        highest("PGD1", _FOAR_STARTS, *_FOAR_ATTACKS),
    ),
    Claim(
        "FOAR does not mask, whatever its start: white-box PGD-20 breaks more than a transferred attack.",
        "its numbers",
        All(*(falls(row, "PGD20-R (transfer)", "PGD20") for row in _FOAR_STARTS)),
    ),
    Claim(
        "The random start is the most robust under transferred attacks.",
        "bold print",
        highest("rand", _FOAR_STARTS, "PGD20-R (transfer)"),
    ),
    Claim("The PGD1 start costs clean accuracy.", "its numbers", lowest("PGD1", _FOAR_STARTS, "Standard")),
)
