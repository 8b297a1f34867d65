from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soar.cli.main import main
from soar.errors import UserError
from soar.objectives import OBJECTIVES
from soar.prediction import StandIn, attacking_by, logits_of
from soar.threat import Linf
from soar.training import compiled as module
from soar.training.compiled import compiled
from tests.cli.tiny import TINY
from tests.training import small

CPU = torch.device("cpu")
THREAT = Linf("0.1")
# With so many passes of whole batches that are differentiated by the images alone, in an update.
SEARCHES = {"adversarial:steps=3": 3, "nfgsm": 1, "trades:steps=2": 2, "soar:init=pgd-2": 2, "standard": 0}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Trace and differentiate as usual, but without a C++ compiler; return the sizes of compiled passes."""
    sizes: list[int] = []
    real = torch.compile

    def watched(model: nn.Module, **options: Any) -> Callable[[Tensor], Tensor]:
        call = real(model, backend="aot_eager", **options)

        def run(x: Tensor) -> Tensor:
            sizes.append(len(x))
            logits: Tensor = call(x)
            return logits

        return run

    monkeypatch.setattr(torch, "compile", watched)
    return sizes


def weights(run: Path, spec: str, **changes: Any) -> list[Tensor]:
    name, _, option = spec.partition(":")
    key, _, value = option.partition("=")
    options = {key: value} if key else {}
    objective = OBJECTIVES.build(name, options, small.network(), THREAT)
    trainer = small.trainer(run, objective=objective, epochs=1, **changes)
    assert trainer.fit().status == "finished"
    return [parameter.detach().clone() for parameter in objective.model.parameters()]


@pytest.mark.parametrize("spec", SEARCHES)
def test_training_ends_with_the_same_weights_as_without_it(
    spec: str, tmp_path: Path, quick: list[int]
) -> None:
    expected = weights(tmp_path / "without", spec)
    assert quick == []
    found = weights(tmp_path / "with", spec, compile=True)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    # Six updates with eight images; validation and all other passes are not compiled.
    assert quick == [8] * 6 * SEARCHES[spec]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch's compiler, of PyTorch
@pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")
def test_training_on_compiled_code_ends_with_the_same_weights(tmp_path: Path) -> None:
    expected = weights(tmp_path / "without", "adversarial:steps=3")
    found = weights(tmp_path / "with", "adversarial:steps=3", compile=True)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_micro_batches_and_bfloat16_and_perturbed_weights(tmp_path: Path, quick: list[int]) -> None:
    changes = {"accumulation_steps": 2, "precision": "bfloat16", "weight_perturbation": 0.005}
    expected = weights(tmp_path / "without", "adversarial:steps=3", **changes)
    found = weights(tmp_path / "with", "adversarial:steps=3", compile=True, **changes)
    # Autocast may round at other places.
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.002)
    assert quick == [4] * 2 * 6 * 3


def test_only_passes_of_attacks_on_whole_batches_are_computed_in_another_way() -> None:
    model, asked = nn.Linear(2, 2), list[int]()

    def call(x: Tensor) -> Tensor:
        asked.append(len(x))
        logits: Tensor = model(x)
        return logits

    x = torch.rand(4, 2, requires_grad=True)
    with attacking_by(StandIn(model, call, 4)):
        logits_of(model, x)
        assert asked == [], "the weights may need gradients"
        model.requires_grad_(False)
        logits_of(model, x.detach())
        logits_of(model, x[:3])
        logits_of(nn.Linear(2, 2).requires_grad_(False), x)
        with torch.no_grad():
            logits_of(model, x)
        assert asked == []
        logits_of(model, x)
        assert asked == [4]
    logits_of(model, x)
    assert asked == [4]


def test_without_a_compiler_there_is_one_line_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    assert main(["train", "demo-robust", *TINY, "--compile"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(
        "soar: training.compile: torch.compile needs g++ on this machine, which is not there;"
    )
    assert told.count("\n") == 1 and not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "device, platform, cxx, needed",
    [
        ("cpu", "darwin", "", "clang++"),
        ("cpu", "win32", "", "cl"),
        ("cpu", "linux", "icpx", "icpx"),
        ("cuda", "linux", "", "Triton"),
    ],
)
def test_the_compiler_that_is_missing_is_named(
    device: str, platform: str, cxx: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=rf"needs {needed.replace('+', '[+]')} on this machine"):
        compiled(nn.Linear(2, 2), torch.device(device))


def test_a_model_that_cannot_be_compiled_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Callable[[Tensor], Tensor]:
        def call(x: Tensor) -> Tensor:
            raise RuntimeError("CppCompileError: C++ compile error\nand many lines more")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    model = nn.Linear(2, 2).requires_grad_(False)
    x = torch.rand(3, 2, requires_grad=True)
    with (
        attacking_by(StandIn(model, compiled(model, CPU), 3)),
        pytest.raises(
            UserError, match=r"fails on the model \(RuntimeError: CppCompileError: .+ error\); train"
        ),
    ):
        logits_of(model, x)
