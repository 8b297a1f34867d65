from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from soar.data import Batch
from soar.distributed import World
from soar.errors import UserError
from soar.objectives import Objective, Standard
from soar.threat import Linf
from soar.training.updates import Updates, synchronized
from tests.training import small


def updates(objective: Objective | None = None, **changes: Any) -> Updates:
    objective = objective or small.Plain(small.network(), Linf("8/255"))
    place = {"device": torch.device("cpu"), "world": World()}
    return Updates(objective, small.settings(**changes), 6, **place)  # type: ignore[arg-type]


def batch(n: int = 8) -> Batch:
    part = small.split(n)
    return Batch(part.images / 255, part.labels, part.indices)


def test_the_rate_is_set_on_every_group_of_parameters() -> None:
    made = updates(schedule="constant", warmup_epochs=1.0, lr=0.6)
    made.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    assert made.prepare(2) == {"lr": pytest.approx(0.3), "eps": 8 / 255}
    assert [group["lr"] for group in made.optimizer.param_groups] == [pytest.approx(0.3)] * 2


@pytest.mark.parametrize("optimizer", ["sgd", "muon"])
@pytest.mark.parametrize("norms", [True, False])
def test_weight_decay_leaves_norms_and_biases_out_where_asked(optimizer: str, norms: bool) -> None:
    """With gradients of 0, only weight decay and Muon's rescaling change anything."""
    objective = small.Plain(small.deep_network())
    before = {name: w.detach().clone() for name, w in objective.model.named_parameters()}
    rates = {"lr": 1.0, "weight_decay": 0.25, "schedule": "constant", "momentum": 0.0}
    made = updates(objective, optimizer=optimizer, weight_decay_norms=norms, **rates)
    made.prepare(0)
    for parameter in made.parameters:
        parameter.grad = torch.zeros_like(parameter)
    made.apply(0, 0.0)
    kept = 0.75 if optimizer == "sgd" else 0.875
    for name, w in objective.model.named_parameters():
        decays = norms or name.endswith("weight")
        expected = before[name] * (kept if decays else 1.0)
        if optimizer == "muon" and name == "2.weight":
            expected = 2 * before[name] / before[name].norm()
        torch.testing.assert_close(w.detach(), expected)


def test_figures_are_means_over_all_micro_batches() -> None:
    one, two = (updates(accumulation_steps=number) for number in (1, 2))
    whole, parts = (made.backward(batch(), 0) for made in (one, two))
    assert whole.keys() == parts.keys() == {"loss", "accuracy", "size", "grad_norm"}
    for name in ("loss", "accuracy", "grad_norm"):
        torch.testing.assert_close(whole[name], parts[name])


def test_the_norm_is_that_of_all_gradients_together() -> None:
    made = updates()
    norm = made.backward(batch(), 0)["grad_norm"]
    flat = torch.cat([x.grad.flatten() for x in made.parameters if x.grad is not None])
    torch.testing.assert_close(norm, flat.norm())


def test_images_come_in_the_models_precision_and_layout() -> None:
    seen: list[Tensor] = []

    class Watching(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Any:
            seen.append(x)
            return super().compute(x[:, :1], y, index, step)

    made = updates(Watching(small.network(dtype=torch.float64)))
    made.backward(batch()._replace(x=torch.rand(8, 3, 6, 6)), 0)
    assert seen[0].dtype == torch.float64
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_labels_are_smoothed_as_the_settings_say(accumulate: int) -> None:
    model = small.network(dtype=torch.float64)
    made = updates(Standard(model), label_smoothing=0.2, accumulation_steps=accumulate)
    assert made.objective.label_smoothing == 0.2
    examples = batch()
    x = examples.x.double()
    expected = F.cross_entropy(model(x), examples.y, label_smoothing=0.2)
    slopes = torch.autograd.grad(expected, list(model.parameters()))
    torch.testing.assert_close(made.backward(batch(), 0)["loss"], expected.detach())
    for parameter, slope in zip(model.parameters(), slopes, strict=True):
        torch.testing.assert_close(parameter.grad, slope)


def test_labels_are_whole_and_weights_are_still_unless_asked_for() -> None:
    seen: list[Tensor] = []

    class Watching(small.Plain):
        def compute(self, x: Tensor, y: Tensor, index: Tensor, step: int) -> Any:
            seen.append(next(self.model.parameters()).detach().clone())
            return super().compute(x, y, index, step)

    made = updates(Watching(small.network()), accumulation_steps=2)
    assert made.objective.label_smoothing == 0
    made.backward(batch(), 0)
    assert len(seen) == 2 and torch.equal(*seen)


def test_figures_are_those_of_the_perturbed_weights() -> None:
    plain, moved = updates(), updates(weight_perturbation=0.05)
    without, figures = plain.backward(batch(), 0), moved.backward(batch(), 0)
    assert figures.keys() == without.keys()
    assert figures["loss"] > without["loss"], "the weights were moved uphill"
    flat = torch.cat([x.grad.flatten() for x in moved.parameters if x.grad is not None])
    torch.testing.assert_close(figures["grad_norm"], flat.norm())
    assert not torch.isclose(figures["grad_norm"], without["grad_norm"], rtol=1e-3)


class Remembering(small.Plain):
    """An objective with a state of its own besides the model's."""

    def __init__(self, name: str = "margin") -> None:
        super().__init__(small.network(), Linf("8/255"))
        self.register_buffer(name, torch.zeros(2))


def test_what_an_objective_remembers_is_saved_with_the_optimizer() -> None:
    made, other = updates(Remembering()), updates(Remembering())
    made.objective.margin = torch.ones(2)
    made.backward(batch(), 0)
    made.apply(0, 1.0)
    state = made.state_dict()
    assert state["objective"].keys() == {"margin"}
    other.load_state_dict(state)
    assert torch.equal(other.objective.get_buffer("margin"), torch.ones(2))
    momenta = [made.optimizer.state[x]["momentum_buffer"] for x in made.parameters]
    restored = [other.optimizer.state[x]["momentum_buffer"] for x in other.parameters]
    assert all(map(torch.equal, momenta, restored))


@pytest.mark.parametrize("objective", [None, Remembering("radius")])
def test_the_state_of_another_objective_is_refused(objective: small.Plain | None) -> None:
    state = updates(Remembering()).state_dict()
    with pytest.raises(UserError, match=r"the checkpoint is of another objective: '.*' does not match"):
        updates(objective).load_state_dict(state)


def test_factors_come_from_the_settings_and_not_from_the_checkpoint() -> None:
    state = updates(weight_decay=0.5).state_dict()
    made = updates(weight_decay=0.25)
    made.load_state_dict(state)
    assert made.optimizer.param_groups[0]["weight_decay"] == 0.25


def test_generators_are_seeded_by_process_and_restored() -> None:
    made, before = updates(), torch.get_rng_state()
    drawn = []
    for rank in (0, 0, 1):
        with made.seeded(0, rank):
            drawn.append(torch.rand(3))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.get_rng_state(), before)


def with_batch_norm() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm2d(2)), nn.Flatten()
    )


def test_batch_norm_is_synchronized_where_gpus_share_a_batch() -> None:
    model = with_batch_norm()
    state = {name: x.clone() for name, x in model.state_dict().items()}
    found = synchronized(model, torch.device("cuda", 1), World(0, 2))
    kinds = [type(layer) for layer in found.modules() if "BatchNorm" in type(layer).__name__]
    assert kinds == [nn.SyncBatchNorm, nn.SyncBatchNorm]
    assert small.same(found.state_dict(), state), "checkpoints have the same names and weights"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_one_process_has_nothing_to_synchronize(device: str) -> None:
    model = with_batch_norm()
    assert synchronized(model, torch.device(device), World()) is model
    assert not any(isinstance(layer, nn.SyncBatchNorm) for layer in model.modules())


def test_batch_norm_cannot_be_synchronized_on_the_cpu() -> None:
    objective = small.Plain(with_batch_norm(), Linf("8/255"))
    with pytest.raises(UserError, match=r"^training.sync_batch_norm: got true for 2 processes on cpu"):
        Updates(
            objective,
            small.settings(sync_batch_norm=True),
            6,
            device=torch.device("cpu"),
            world=World(0, 2),
        )
    assert not any(isinstance(layer, nn.SyncBatchNorm) for layer in objective.model.modules())
