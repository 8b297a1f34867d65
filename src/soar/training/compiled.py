"""Passes of inner attacks on a model that torch.compile has compiled."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from soar.errors import UserError, first_line

_COMPILERS = {"darwin": "clang++", "win32": "cl"}


def compiled(model: nn.Module, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return a model that is compiled at its first call, which takes minutes, for batches of one size.

    Args:
        model: shares its weights with what is returned
        device: where it computes

    Raises:
        UserError: without the compiler that torch.compile needs there; at a call, if the compilation fails
    """
    _check_compiler(device)
    call = torch.compile(model, dynamic=False)

    def run(x: Tensor) -> Tensor:
        try:
            with warnings.catch_warnings():
                # It looks at an attribute that points inside a graph do not have.
                warnings.filterwarnings("ignore", "The .grad attribute of a Tensor that is not a leaf")
                logits: Tensor = call(x)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the model works, and what a compiler raises is of many kinds
            raise UserError(
                f"training.compile: torch.compile fails on the model ({first_line(error)});"
                " train without it (flag --compile false)"
            ) from error
        return logits

    return run


def _check_compiler(device: torch.device) -> None:
    if device.type == "cpu":
        needed = os.environ.get("CXX") or _COMPILERS.get(sys.platform, "g++")
        is_there = shutil.which(needed) is not None
        advice = "install a C++ compiler or name one in CXX"
    else:
        needed, is_there = "Triton", device.type != "cuda" or find_spec("triton") is not None
        advice = "install it (pip install triton)"
    if not is_there:
        raise UserError(
            f"training.compile: torch.compile needs {needed} on this machine, which is not there;"
            f" {advice}, or train without it (flag --compile false)"
        )
