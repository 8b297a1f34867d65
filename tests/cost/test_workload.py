from __future__ import annotations

import warnings

import pytest

from soar import models
from soar.cost import count_update
from soar.cost.workload import WORKLOADS, Workload, build
from soar.errors import UserError
from soar.objectives.inner_passes import has_batch_norm


@pytest.mark.parametrize("network", WORKLOADS.values(), ids=lambda network: network.name)
def test_presets_can_be_built_and_are_what_their_names_say(network: Workload) -> None:
    model = models.build(network.model, seed=0, options=dict(network.options))
    assert has_batch_norm(model) == (network.name in ("wrn-28-2", "resnet18-bn"))


def test_networks_with_batch_norm_are_built_without_a_warning() -> None:
    options = (("width", 4), ("hidden", 8), ("norm", "batch"))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        build("soar", Workload(name="bn", model="cnn6", options=options, batch_size=2))
    assert not heard


def test_an_objective_is_built_from_a_spec_or_from_the_table_of_a_recipe() -> None:
    tiny = Workload(name="tiny", model="cnn6", options=(("width", 4), ("hidden", 8)), batch_size=2)
    by_spec, x, y = build("trades:steps=3", tiny)
    by_table = build({"name": "trades", "steps": 3}, tiny)[0]
    assert count_update(by_spec, x, y)[:2] == count_update(by_table, x, y)[:2] == (5, 5)
    with pytest.raises(UserError, match="objectives: got 'trades steps=3', expected 'trades:steps=3'"):
        build("trades steps=3", tiny)
