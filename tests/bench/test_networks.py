from __future__ import annotations

import pytest

from soar import models
from soar.bench.networks import NETWORKS, Network, preset
from soar.errors import UserError
from soar.objectives.inner_passes import has_batch_norm


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)
def test_presets_can_be_built_and_are_what_their_names_say(network: Network) -> None:
    model = models.build(network.model, seed=0, options=dict(network.options))
    assert has_batch_norm(model) == (network.name in ("wrn-28-2", "resnet18-bn"))


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(
        UserError, match=r"unknown network 'wrn-28-3' \(--networks\); did you mean 'wrn-28-2'"
    ):
        preset("wrn-28-3")
