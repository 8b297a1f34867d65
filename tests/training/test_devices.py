"""Training on a device without float64 that does not mix with the CPU, and how often it is waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from soar import checkpoints
from soar.objectives import OBJECTIVES
from soar.registry import Entry
from soar.threat import L2, Linf, Threat
from soar.training.trainer import Trainer
from tests.pretending import DEVICE, Record, on_cpu, pretended
from tests.training import small

# Values of every example are kept on the CPU: they are read from the device, and the indices as well.
READS = {"mma": 3, "pgi": 3}
FEW: dict[str, dict[str, Any]] = {
    name: {"steps": 2} for name in ("adversarial", "llr", "mart", "mma", "trades")
}
# PyTorch itself places some of the tensors of forward derivatives, which Gauss-Newton's products take, and it
# takes the pretended device for the CPU.
FEW["soar"] = {"hvp": "finite-difference"}


def network(*, batch_norm: bool) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        norm = nn.BatchNorm2d(3) if batch_norm else nn.Identity()
        return nn.Sequential(
            nn.Conv2d(1, 3, 3, bias=False), norm, nn.Softplus(), nn.Flatten(), nn.Linear(48, 2)
        )


def trained(run: Path, entry: Entry[Any], threat: Threat, record: Record | None, **changes: Any) -> Trainer:
    """Train for three updates; of those on the device keep what was read after the first."""
    objective = entry.build(
        network(batch_norm=True), threat, **changes.pop("options", FEW.get(entry.name, {}))
    )
    kept: list[list[str]] = []

    class Sink(small.Recorder):
        def log(self, step: int, row: Any) -> None:
            if record is not None:
                kept.append(list(record.reads))
                record.reads.clear()

    device = "cpu" if record is None else str(DEVICE)
    made = small.trainer(
        run,
        objective=objective,
        data=small.dataset(24, 4),
        device=device,
        sinks=[Sink()],
        **{"epochs": 1, "lr": 0.01} | changes,
    )
    made.fit()
    made.reads = kept[1:3]  # type: ignore[attr-defined]
    return made


@pytest.mark.filterwarnings("ignore:.* on a model with BatchNorm")
@pytest.mark.parametrize("threat", [Linf("8/255"), L2("0.3")], ids=str)
@pytest.mark.parametrize("entry", list(OBJECTIVES), ids=lambda entry: entry.name)
def test_every_objective_trains_as_on_the_cpu_and_is_waited_for_once(
    entry: Entry[Any], threat: Threat, tmp_path: Path
) -> None:
    expected = trained(tmp_path / "cpu", entry, threat, None)
    with pretended() as record:
        found = trained(tmp_path / "device", entry, threat, record)
        reads = found.reads  # type: ignore[attr-defined]
    for name, weight in found.objective.model.state_dict().items():
        torch.testing.assert_close(
            on_cpu(weight), expected.objective.model.state_dict()[name], rtol=1e-4, atol=1e-5
        )
    most = READS.get(entry.name, 1)
    assert [len(one) for one in reads] == [most] * 2, reads


@pytest.mark.parametrize(
    "settings",
    [
        {"weight_perturbation": 0.01, "ema_decay": 0.5},
        {"accumulation_steps": 2, "label_smoothing": 0.1},
        {"clip_grad_norm": 0.1, "optimizer": "sgd", "nesterov": True, "eps_warmup_epochs": 1.0},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_no_setting_makes_an_update_wait_twice(settings: dict[str, Any], tmp_path: Path) -> None:
    entry = OBJECTIVES["adversarial"]
    expected = trained(tmp_path / "cpu", entry, L2("0.3"), None, **settings)
    with pretended() as record:
        found = trained(tmp_path / "device", entry, L2("0.3"), record, **settings)
    for name, weight in found.updates.judged_model.state_dict().items():
        torch.testing.assert_close(
            on_cpu(weight), expected.updates.judged_model.state_dict()[name], rtol=1e-4, atol=1e-5
        )
    assert [len(one) for one in found.reads] == [1, 1]  # type: ignore[attr-defined]


def test_an_adaptive_weight_is_waited_for_as_well(tmp_path: Path) -> None:
    with pretended() as record:
        found = trained(tmp_path, OBJECTIVES["elle"], Linf("8/255"), record, options={"adaptive": True})
    assert [len(one) for one in found.reads] == [2, 2]  # type: ignore[attr-defined]


def test_a_checkpoint_of_the_device_is_one_of_the_cpu(tmp_path: Path) -> None:
    with pretended() as record:
        found = trained(tmp_path, OBJECTIVES["pgi"], Linf("8/255"), record)
        weights = {name: on_cpu(x) for name, x in found.objective.model.state_dict().items()}
    saved = load_file(checkpoints.available(tmp_path)[-1] / "model.safetensors")
    assert saved.keys() == weights.keys() and all(torch.equal(x, weights[name]) for name, x in saved.items())
