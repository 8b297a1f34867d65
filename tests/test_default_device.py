"""A default device of the user is where the user's tensors are made; ours say where they are.

The device meta, whose tensors have no numbers, stands for any device on which neither model nor images are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import soar
from soar.attacks import ATTACKS, check_attack
from soar.objectives import OBJECTIVES, check_objective
from soar.prediction import predict
from tests.attacks.problems import Plain, images
from tests.attacks.test_contract import SMALL
from tests.models.test_contract import SMALL as MODELS

CONSTRUCTORS = (
    "arange as_tensor asarray empty empty_strided eye full linspace logspace ones rand randint randn"
)
CONSTRUCTORS += " randperm range scalar_tensor tensor tril_indices triu_indices zeros"
# What a module is made of is made where its user says.
OF_MODULES = ["models/layers.py"]
SHAPE = (1, 3, 4)


@pytest.fixture
def problem() -> Iterator[tuple[Plain, Tensor, Tensor]]:
    """A network with images on the CPU, within a default device that is another one."""
    model, x = Plain(), images(6).float()
    y = predict(model, x).argmax(dim=1)
    with torch.device("meta"):
        assert torch.zeros(1).is_meta
        yield model, x, y


def test_every_tensor_that_is_made_names_its_device() -> None:
    found = []
    root = Path(soar.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch."):
                name = ast.unparse(node.func).removeprefix("torch.")
                if name in CONSTRUCTORS.split() and "device" not in [one.arg for one in node.keywords]:
                    found.append((str(path.relative_to(root)), node.lineno, ast.unparse(node)))
    assert [one for one in found if one[0] not in OF_MODULES] == []
    assert found, "the modules are found, so others would be"


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", SMALL)
def test_every_attack_runs(name: str, norm: str, problem: tuple[Plain, Tensor, Tensor]) -> None:
    model, x, y = problem
    attack, threat = ATTACKS[name].build(**SMALL[name]), soar.Linf(0.1) if norm == "linf" else soar.L2(0.5)
    found = soar.attack(model, x, y, threat, attack)
    assert found.adversarial.device.type == "cpu" and found.success.device.type == "cpu"


@pytest.mark.filterwarnings("ignore:.* on a model with BatchNorm")
@pytest.mark.parametrize("name", [one.name for one in OBJECTIVES])
def test_every_objective_trains(name: str, problem: tuple[Plain, Tensor, Tensor]) -> None:
    model, x, y = problem
    objective = OBJECTIVES[name].build(model.train(), soar.Linf(0.02))
    index = torch.arange(6, device="cpu") if objective.needs_index else None
    for _ in range(2):
        found = objective(x, y, index)
        found.loss.backward()
    assert all(weight.grad is not None and weight.grad.device.type == "cpu" for weight in model.parameters())


@pytest.mark.parametrize("suite", ["quick", "standard:steps=3,queries=5", "rand:steps=2,samples=2"])
def test_every_suite_evaluates(suite: str, problem: tuple[Plain, Tensor, Tensor], tmp_path: Path) -> None:
    model, x, y = problem
    found = soar.evaluate(model, (x, y), soar.Linf(0.05), suite, batch_size=4)
    found.save(tmp_path / "a.json")
    again = soar.evaluation.Assessment.load(tmp_path / "a.json")
    assert torch.equal(again.survivors("worst case"), found.survivors("worst case"))


def test_a_model_is_diagnosed(problem: tuple[Plain, Tensor, Tensor]) -> None:
    model, x, y = problem
    assert all(one.was_run for one in soar.diagnose(model, (x[:3], y[:3]), soar.Linf(0.1)).checks)


@pytest.mark.parametrize("method", ["crown", "crown:steps=2,refine=true", "ibp", "smoothing:draws=20"])
def test_every_method_certifies(method: str, problem: tuple[Plain, Tensor, Tensor]) -> None:
    model, x, y = problem
    threat = soar.L2(0.01) if method.startswith("smoothing") else soar.Linf(0.001)
    assert len(soar.certify(model, (x, y), threat, method).certified) == 6


@pytest.mark.parametrize("name", MODELS)
def test_our_networks_are_built_on_the_cpu(name: str) -> None:
    with torch.device("meta"):
        model = soar.models.build(name, seed=0, options=dict(MODELS[name]))
    assert {x.device.type for x in model.state_dict().values()} == {"cpu"}


def test_contracts_are_checked() -> None:
    with torch.device("meta"):
        check_objective(lambda model, threat: soar.objectives.NFGSM(model, threat))
        check_attack(soar.attacks.PGD(steps=2))
