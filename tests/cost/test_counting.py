from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from soar import attacks
from soar.cost import Counter, count_objective, count_update, relative_work, run_unfooled
from soar.cost.workload import THREAT, Workload, build, sharpen
from soar.errors import UserError
from soar.objectives import OBJECTIVES
from tests.attacks.problems import OUTPUTS, Answering, images


def test_a_counter_counts_only_while_it_is_entered_and_leaves_no_hook() -> None:
    model, x = nn.Linear(3, 2), torch.ones(4, 3, requires_grad=True)
    model(x).sum().backward()
    with Counter(model) as counter:
        model(x).sum().backward()
        model(x)
    model(x).sum().backward()
    # Each product has 4 x 3 x 2 multiplications; backward, one is for the weights and one for the input.
    assert (counter.forwards, counter.backwards, counter.flop) == (2, 1, 4 * 2 * 24)
    assert not model._forward_hooks


@pytest.mark.parametrize("kind", OUTPUTS)
def test_passes_of_a_model_whose_output_holds_more_than_logits_are_counted(kind: str) -> None:
    x, y = images(4).float(), torch.arange(4)
    found = [count_update(OBJECTIVES["nfgsm"].build(Answering(each), THREAT), x, y) for each in ("", kind)]
    assert found[0] == found[1] and found[0][:2] == (2, 2)
    labels, handle = sharpen(Answering(kind), x)
    with handle:
        assert torch.equal(labels, Answering()(x).argmax(dim=1))


@pytest.mark.parametrize(
    "name, options, passes, work",
    [
        ("standard", {}, (1, 1), 3),
        ("adversarial", {"steps": 10}, (11, 11), 23),
        ("trades", {"steps": 10}, (12, 12), 26),
        ("mma", {"steps": 3, "bisection_steps": 4}, (9, 5), 16),
        ("foar", {}, (2, 3), 8),
        ("soar", {}, (2, 4), 12),
        # Start 2, cross-entropy of all images 3, and 7 more for the images with a penalty.
        ("soar", {"penalty_fraction": 0.25}, (3, 5), 5 + 7 / 4),
        ("soar", {"penalty_fraction": 0.125}, (3, 5), 5 + 7 / 8),
        ("nfgsm", {}, (2, 2), 5),
        ("rs-fgsm", {}, (2, 2), 5),
        ("qub", {}, (3, 3), 8),
        ("pgi", {}, (3, 3), 8),
        ("nuat", {}, (3, 3), 8),
        ("elle", {}, (5, 5), 14),
        # One pass each way, of the image, the middle of its interval and half of its length.
        ("ibp", {}, (1, 1), 9),
    ],
)
def test_passes_and_work_of_an_update_are_the_arithmetic_of_the_method(
    name: str, options: dict[str, Any], passes: tuple[int, int], work: int
) -> None:
    found = count_objective(name, **options)
    assert found[:2] == passes
    # The first layer may need no gradient of the image, which spares a part of each last pass.
    assert found.work == pytest.approx(work, abs=0.09)


def test_every_registered_objective_is_counted_with_its_defaults() -> None:
    standard = count_objective("standard")
    for entry in OBJECTIVES:
        assert count_objective(entry.name).work >= standard.work


def test_relative_work_is_that_of_pgd_10() -> None:
    assert relative_work("adversarial", steps=10) == 1
    assert relative_work("adversarial", steps=1) == pytest.approx(5 / 23, abs=0.002)


@pytest.mark.parametrize(
    "name, options, passes",
    [
        ("fgsm", {}, (3, 1)),
        ("pgd", {"steps": 7, "restarts": 4}, (33, 28)),
        ("square", {"queries": 20}, (21, 0)),
    ],
)
def test_an_attack_that_fools_no_image_makes_all_its_passes(
    name: str, options: dict[str, Any], passes: tuple[int, int]
) -> None:
    objective, images, _ = build(
        "standard",
        Workload(name="n", model="resnet10", options=(("width", 4),), image_shape=(3, 8, 8), batch_size=2),
    )
    attack = attacks.ATTACKS.build(name, options)
    assert run_unfooled(objective.model, attack, THREAT, images) == passes


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'trades'"):
        count_objective("tradse")
    with pytest.raises(UserError, match="unknown option of TRADES 'stepz'"):
        count_objective("trades", stepz=3)
