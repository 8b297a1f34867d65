from __future__ import annotations

import pytest
import torch

from soar.device import choose
from soar.errors import UserError


def test_auto_is_the_fastest_that_is_there() -> None:
    there = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert choose("auto") == there


def test_unknown_and_absent_devices_are_refused() -> None:
    with pytest.raises(UserError, match=r"unknown device 'gpu' \(flag --device\)"):
        choose("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match=r"unknown device on this machine 'cuda'.* Allowed: auto, cpu"):
            choose("cuda")
