"""The methods that certify examples, by name with options."""

from __future__ import annotations

from soar import values
from soar.evaluation.bounding import Bounding, Precision
from soar.evaluation.smoothing import Smoothing
from soar.options import parse_spec
from soar.registry import Registry

Method = Bounding | Smoothing
METHODS: Registry[Method] = Registry("method")
"""the methods that `soar.certify` and the command line know by name"""


@METHODS.register("crown")
def crown(*, refine: bool = False, steps: int = 0, precision: Precision = "float32") -> Bounding:
    """Linear bounds of the margin around each image; tight for small eps.

    Source: Zhang et al., "Efficient Neural Network Robustness Certification with General Activation
    Functions", 2018; steps: Xu et al., "Fast and Complete", 2021.

    Args:
        refine: bound the inputs of nonlinear layers in the same way: tighter, one backward pass per neuron
        steps: gradient steps that tighten the bounds of ReLUs (alpha-CROWN)
        precision: float32 or float64
    """
    return Bounding(method="crown", refine=refine, steps=steps, precision=precision)


@METHODS.register("ibp")
def ibp(*, precision: Precision = "float32") -> Bounding:
    """Intervals, layer by layer: one pass, useful for networks that were trained with it.

    Source: Gowal et al., "On the Effectiveness of Interval Bound Propagation for Training Verifiably Robust
    Models", 2018.

    Args:
        precision: float32 or float64
    """
    return Bounding(method="ibp", precision=precision)


METHODS.register("smoothing")(Smoothing)


def method_of(text: str) -> Method:
    """Return the method that a text stands for.

    Raises:
        UserError: if its name or an option does not exist

    >>> method_of("crown:steps=20")
    Bounding(method='crown', refine=False, steps=20, precision='float32')
    """
    values.text(text, "method")
    return METHODS.build(*parse_spec(text, "method"))
