from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from typing import Any

import pytest
import torch

from soar import randomness
from soar.environment import choose_device, computes_bfloat16, deterministic, environment, works
from soar.errors import UserError
from tests.pretending import DEVICE, pretended


def have(monkeypatch: pytest.MonkeyPatch, *devices: str) -> None:
    """Let PyTorch say that there are other devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in devices)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in devices)


@pytest.mark.parametrize(
    "there, working, chosen",
    [
        (["cuda", "mps"], ["cuda", "mps"], "cuda"),
        (["cuda", "mps"], ["mps"], "mps"),
        (["mps"], ["mps"], "mps"),
        (["mps"], [], "cpu"),
        (["cuda"], [], "cpu"),
        ([], [], "cpu"),
    ],
)
def test_auto_is_the_fastest_device_that_works(
    there: list[str], working: list[str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, *there)
    monkeypatch.setattr("soar.environment.works", lambda device: device in working)
    assert choose_device("auto") == chosen


def test_a_device_without_a_driver_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    # This PyTorch was built for the CPU, and fails on any other device as one with an old driver does.
    have(monkeypatch, "mps")
    assert not works("mps")
    assert choose_device("auto") == "cpu"
    assert choose_device("mps") == "mps", "who names a device gets it"


def test_a_device_that_computes_like_the_cpu_works() -> None:
    with pretended():
        assert works(str(DEVICE))


@pytest.mark.parametrize("missing", ["index_add_", "scatter_reduce_", "__rshift__"])
def test_a_device_without_an_operation_does_not_work(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = getattr(torch.Tensor, missing)

    def refuse(x: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        if x.device == DEVICE:
            raise NotImplementedError(f"no {missing} on {DEVICE}")
        found: torch.Tensor = usual(x, *others, **named)
        return found

    monkeypatch.setattr(torch.Tensor, missing, refuse)
    with pretended():
        assert not works(str(DEVICE))
    assert works("cpu")


def test_a_device_with_other_random_numbers_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = randomness.uniform
    there = lambda keys, *rest: usual(keys, *rest) + (keys.device == DEVICE) * 2.0**-24  # noqa: E731
    monkeypatch.setattr(randomness, "uniform", there)
    with pretended():
        assert not works(str(DEVICE))


@pytest.mark.parametrize("workspace", [None, ":16:8"])
@pytest.mark.parametrize("fails", [False, True])
def test_settings_of_determinism_are_put_back(
    workspace: str | None, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "CUBLAS_WORKSPACE_CONFIG"
    monkeypatch.delenv(name, raising=False)
    if workspace:
        monkeypatch.setenv(name, workspace)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with suppress(KeyError), deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert not torch.backends.cudnn.benchmark
        assert os.environ[name] == (workspace or ":4096:8")
        if fails:
            raise KeyError
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.benchmark
    assert os.environ.get(name) == workspace


def test_determinism_that_is_not_wanted_changes_nothing() -> None:
    with deterministic(False):
        assert not torch.are_deterministic_algorithms_enabled()


def test_unknown_and_absent_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"unknown device 'gpu' \(flag --device\)"):
        choose_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"unknown device on this machine 'cuda'.* Allowed: auto, cpu"):
        choose_device("cuda")


def test_the_command_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["reproduce", "adv_linf", "--only", "ResNet / SOAR", "--eps", "8/255"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/soar", *words])
    assert shlex.split(environment()["command"]) == ["soar", *words]


@pytest.mark.parametrize("name, expected", [("avx512_bf16", True), ("amx_bf16", True), ("avx512_f", False)])
def test_bfloat16_is_found_where_the_processor_multiplies_it(
    name: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {name: True, "avx2": True})
    assert computes_bfloat16(torch.device("cpu")) is expected
    assert not computes_bfloat16(torch.device("mps"))
