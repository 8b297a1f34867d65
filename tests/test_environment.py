from __future__ import annotations

import shlex
import sys

import pytest
import torch

from soar.environment import choose_device, computes_bfloat16, environment
from soar.errors import UserError


def test_auto_is_the_fastest_device() -> None:
    fastest = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert choose_device("auto") == fastest


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
