from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from soar.bench.memory import growth_in_new_process

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak of a while"
)
MEBIBYTE = 2**20


def prepare(count: int, mebibytes: int) -> Callable[[], None]:
    return partial(one_after_the_other, count, mebibytes)


def one_after_the_other(count: int, mebibytes: int) -> None:
    for _ in range(count):
        torch.ones(mebibytes * MEBIBYTE, dtype=torch.uint8)


def test_the_growth_is_the_peak_and_not_the_sum() -> None:
    before = dict(os.environ)
    found = growth_in_new_process(prepare, 5, 40)
    assert found is not None
    assert 39 < found < 60
    assert dict(os.environ) == before
