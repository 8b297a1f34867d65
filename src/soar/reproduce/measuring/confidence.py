"""How sure a network is at test images, at random points near them, and one step of PGD up."""

from __future__ import annotations

import math

from soar.evaluation.checks.slopes import gradient_numbers
from soar.evaluation.target import Target
from soar.reproduce.measuring.subject import BATCH, Found, Subject

_Z = 1.959963984540054


def confidence(subject: Subject) -> Found:
    """Give the mean of the largest probability over all test images, in percent, where the options say.

    Args:
        subject: network and images; the option `at` is clean, random or pgd1
    """
    numbers = gradient_numbers(
        Target(
            model=subject.model,
            data=subject.split,
            threat=subject.threat,
            seed=subject.seed,
            batch_size=BATCH,
        )
    )
    name = f"confidence_{subject.options['at']}"
    value, deviation = 100 * getattr(numbers, name), 100 * getattr(numbers, f"{name}_std")
    half = _Z * deviation / math.sqrt(len(subject.split))
    # The share of pixels in which the gradient is not zero is a number of the paper's text.
    details = {"deviation": deviation, "entries": numbers.entries}
    return Found(value, value - half, value + half, forward=3, backward=3, details=details)
