"""With the library itself; tests/interop/test_external.py goes through the same with a lookalike."""

from __future__ import annotations

import torch

import soar
from soar.attacks import run
from soar.interop import from_torchattacks
from soar.threat import Linf
from tests.interop.libraries import Counted, falls, library, middle_radius, problem

torchattacks = library("torchattacks")


def test_fgsm_of_torchattacks_breaks_what_can_be_broken() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    found = soar.evaluate(model, (x, y), Linf(eps), [from_torchattacks(torchattacks.FGSM(model, eps=eps))])
    assert torch.equal(found.attacks[0].robust, ~falls(model, x, y, eps))
    assert found.names == ["clean", "torchattacks FGSM", "worst case"]


def test_its_passes_are_those_that_the_model_sees() -> None:
    model, x, y = problem(6)
    counted = Counted(model)
    external = from_torchattacks(torchattacks.PGD(counted, eps=0.01, steps=4))
    run(model, external, Linf(0.01), x, y)
    assert (counted.forwards, counted.backwards) == (6 * 4, 6 * 4)
