from __future__ import annotations

import pytest
import torch

import soar
from soar.attacks import run
from soar.errors import UserError
from soar.interop import from_foolbox
from soar.threat import L2, Linf
from tests.attacks.problems import OUTPUTS, Answering, TinyNet, images, said
from tests.interop.libraries import Counted, falls, library, middle_radius, problem

foolbox = library("foolbox")


def test_fgsm_of_foolbox_breaks_what_can_be_broken() -> None:
    model, x, y = problem()
    eps = middle_radius(model, x, y)
    external = from_foolbox(foolbox.attacks.LinfFastGradientAttack(), model)
    found = soar.evaluate(model, (x, y), Linf(eps), [external])
    assert torch.equal(found.attacks[0].robust, ~falls(model, x, y, eps))
    assert found.names == ["clean", "foolbox LinfFastGradientAttack", "worst case"]
    assert found.attacks[0].parameters["library"] == f"foolbox {foolbox.__version__}"


def test_its_passes_are_those_that_the_model_sees() -> None:
    model, x, y = problem(6)
    counted = Counted(model)
    external = from_foolbox(foolbox.attacks.LinfPGD(steps=4), counted)
    run(model, external, Linf(0.01), x, y)
    # Four steps, and a prediction of the result.
    assert (counted.forwards, counted.backwards) == (6 * 5, 6 * 4)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_logits_are_found_among_other_outputs(kind: str) -> None:
    model, twin, x = Answering(kind), Answering(), images(6).float()
    y = said(twin, x)
    attack = foolbox.attacks.LinfPGD(steps=4)
    found, wanted = (run(one, from_foolbox(attack, one), Linf(0.1), x, y) for one in (model, twin))
    assert torch.equal(found.adversarial, wanted.adversarial) and not wanted.robust.all()
    assert torch.equal(found.backward, wanted.backward) and found.backward.sum() == 4 * 6


def test_a_minimum_norm_attack_is_cut_to_the_ball() -> None:
    model = TinyNet().float()
    x = images(8).float()
    y = said(model, x)
    external = from_foolbox(foolbox.attacks.L2DeepFoolAttack(steps=20), model)
    found = run(model, external, L2(0.2), x, y)
    assert L2(0.2).contains(found.adversarial, x).all()


def test_mistakes_are_told_in_one_line() -> None:
    model, x, y = problem(3)
    with pytest.raises(UserError, match=r"Attack: got the norm linf, expected that of the threat, l2 0\.1"):
        run(model, from_foolbox(foolbox.attacks.LinfPGD(steps=1), model), L2(0.1), x, y)
    wrapped = foolbox.PyTorchModel(model.eval(), bounds=(0, 1), device="cpu")
    with pytest.raises(UserError, match=r"model: got a PyTorchModel, expected a torch\.nn\.Module"):
        from_foolbox(foolbox.attacks.LinfPGD(), wrapped)
