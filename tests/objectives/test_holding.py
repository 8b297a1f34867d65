"""Modules that hold a model and its objective, as a LightningModule does."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from soar.objectives import ELLE, MMA, NFGSM, OBJECTIVES, PGI, Objective
from soar.registry import Entry
from soar.threat import Linf
from tests.attacks.problems import TinyNet, images

THREAT = Linf("0.1")
LABELS = torch.tensor([0, 1, 2, 3])
INDEX = torch.tensor([3, 0, 2, 5])


class Together(nn.Module):
    """What a user of Lightning writes."""

    def __init__(self, build: Entry[Objective] | type[Objective], seed: int = 0) -> None:
        super().__init__()
        make = build.build if isinstance(build, Entry) else build
        self.model = nn.Sequential(nn.BatchNorm2d(1).double(), TinyNet(seed=seed))
        self.objective = make(self.model, THREAT)

    def loss(self) -> Tensor:
        y = copy.deepcopy(self.model)(images(4)).argmax(dim=1)  # some objectives remember what is right only
        loss: Tensor = self.objective(images(4), y, INDEX, 1).loss
        return loss


class Alone(nn.Module):
    """One that holds the objective and reaches its model through it."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.objective = NFGSM(TinyNet(seed=seed), THREAT)


def of_the_model(module: nn.Module) -> set[str]:
    return {f"model.{name}" for name in module.get_submodule("model").state_dict()}


@pytest.mark.filterwarnings("ignore:.* on a model with BatchNorm")
@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_tensor_is_saved_once_and_loads_again(entry: Entry[Objective], tmp_path: Path) -> None:
    one, other = Together(entry), Together(entry, seed=1)
    one.loss().backward()
    state = one.state_dict()
    extra = {name for name in state if name.endswith("_extra_state")}
    assert set(state) - extra == of_the_model(one)
    assert all(isinstance(state[name], Tensor) for name in extra)
    safetensors.torch.save_file(state, tmp_path / "file.safetensors")
    safetensors.torch.save_model(one, str(tmp_path / "model.safetensors"))
    missing, unexpected = safetensors.torch.load_model(other, tmp_path / "model.safetensors")
    assert not missing and not unexpected
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "file.safetensors"))
    again = other.state_dict()
    assert state.keys() == again.keys() and all(torch.equal(state[name], again[name]) for name in state)
    assert torch.equal(one.loss(), other.loss())


@pytest.mark.parametrize("kind", [MMA, PGI, lambda *given: ELLE(*given, adaptive=True)])
def test_what_an_objective_remembers_is_loaded_and_not_shared(kind: type[Objective]) -> None:
    one, other = Together(kind), Together(kind)
    one.loss()
    kept = {name: x.clone() for name, x in one.state_dict().items() if name.endswith("_extra_state")}
    assert kept and any(x.any() for x in kept.values())
    other.load_state_dict(one.state_dict())
    other.loss()
    other.objective(images(4).flip(0), LABELS, INDEX, 2)
    now = one.state_dict()
    assert all(torch.equal(now[name], x) for name, x in kept.items()), "the other one has its own"


def test_an_objective_by_itself_is_saved_with_its_model() -> None:
    objective, other = NFGSM(TinyNet(), THREAT), NFGSM(TinyNet(seed=1), THREAT)
    assert set(objective.state_dict()) == {f"model.{name}" for name in objective.model.state_dict()}
    other.load_state_dict(objective.state_dict())
    assert torch.equal(other.model(images(2)), objective.model(images(2)))
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})


def test_a_module_that_reaches_the_model_through_the_objective_only_saves_it_too() -> None:
    one, other = Alone(), Alone(seed=1)
    assert set(one.state_dict()) == {f"objective.model.{name}" for name in one.objective.model.state_dict()}
    other.load_state_dict(one.state_dict())
    assert torch.equal(other.objective.model(images(2)), one.objective.model(images(2)))


def test_several_objectives_and_parts_of_the_model_are_saved_once() -> None:
    class Parts(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.backbone, self.head = nn.BatchNorm2d(1).double(), TinyNet(seed=seed)
            whole = nn.Sequential(self.backbone, self.head)
            self.first, self.second = NFGSM(whole, THREAT), PGI(whole, THREAT)

    one, other = Parts(0), Parts(1)
    one.second(images(4), LABELS, INDEX)
    assert {name.split(".")[0] for name in one.state_dict()} == {"backbone", "head", "second"}
    other.load_state_dict(one.state_dict())
    losses = [module.second(images(4), LABELS, INDEX, 1).loss for module in (one, other)]
    assert torch.equal(*losses)


def test_a_model_without_numbers_in_memory_is_not_taken_for_another_one() -> None:
    module = nn.ModuleList([nn.Linear(2, 2, device="meta"), NFGSM(nn.Linear(2, 2, device="meta"), THREAT)])
    assert set(module.state_dict()) == {"0.weight", "0.bias", "1.model.weight", "1.model.bias"}


@pytest.mark.parametrize("assign", [False, True])
def test_a_missing_tensor_is_still_reported(assign: bool) -> None:
    one, other = Together(NFGSM), Together(NFGSM, seed=1)
    state = one.state_dict()
    del state["model.0.weight"]
    with pytest.raises(RuntimeError, match=r'Missing key.* "model\.0\.weight"'):
        other.load_state_dict(state, assign=assign)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict(one.state_dict() | {"objective.model.other": torch.zeros(1)}, assign=assign)
    other.load_state_dict(one.state_dict(), assign=assign)
    assert other.objective.model is other.model
    assert torch.equal(other.eval().model(images(2)), one.eval().model(images(2)))


def test_parameters_mode_device_and_copies_go_with_the_model() -> None:
    module = Together(NFGSM)
    assert [*module.parameters()] == [*module.objective.parameters()] == [*module.model.parameters()]
    module.eval()
    assert not any(part.training for part in module.model.modules())
    module.objective.train()
    assert all(part.training for part in module.model.modules())
    module.objective.to(torch.float32)
    assert all(weight.dtype == torch.float32 for weight in module.model.parameters())
    copied = copy.deepcopy(module)
    assert copied.objective.model is copied.model and copied.model is not module.model
    assert copied.state_dict().keys() == module.state_dict().keys()
