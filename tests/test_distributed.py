from __future__ import annotations

from typing import Any

import pytest
import torch

from soar import distributed
from soar.distributed import World, local_batch
from soar.errors import UserError


@pytest.mark.parametrize(("n", "size"), [(0, 1), (1, 3), (10, 3), (12, 4), (7, 8)])
def test_shards_cover_everything_once_and_evenly(n: int, size: int) -> None:
    parts = [list(range(n))[World(r, size).shard(n)] for r in range(size)]
    assert [row for part in parts for row in part] == list(range(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_process_needs_no_group() -> None:
    with distributed.joined("cpu") as world:
        assert world == World(0, 1, 0)
        assert world.is_main
        assert not torch.distributed.is_initialized()
        assert world.gather(3) == [3]
        assert world.from_main("x") == "x"
        assert world.mean(torch.ones(2)).tolist() == [1, 1]


def test_torchrun_says_who_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    world = distributed.current()
    assert world == World(5, 8, 1)
    assert not world.is_main
    assert world.device("cuda") == torch.device("cuda", 1)
    assert world.device("cuda:3") == torch.device("cuda", 3)
    assert world.device("cpu") == torch.device("cpu")


def test_a_batch_that_does_not_divide() -> None:
    text = r"got 100, expected a multiple of 16 \(8 processes x 2 micro-batches of training.accum"
    with pytest.raises(UserError, match=text):
        local_batch(100, 2, World(0, 8))
    assert local_batch(96, 2, World(0, 8)) == 6


@pytest.mark.parametrize(
    "device, expected",
    [
        ("cpu", [("gloo", None)]),
        ("cuda", [torch.device("cuda", 1), ("nccl", torch.device("cuda", 1))]),
        ("cuda:3", [torch.device("cuda", 3), ("nccl", torch.device("cuda", 3))]),
    ],
)
def test_a_process_says_which_gpu_is_its_own(
    device: str, expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    for name in ("barrier", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda: None)
    monkeypatch.setattr(
        torch.distributed,
        "init_process_group",
        lambda backend, device_id=None: asked.append((backend, device_id)),
    )
    with distributed.joined(device) as world:
        assert world == World(1, 2, 1)
    assert asked == expected


def test_processes_do_not_share_a_batch_on_a_device_without_collectives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with (
        pytest.raises(UserError, match=r"^--device: got mps for 2 processes, expected cpu or cuda, between"),
        distributed.joined("mps"),
    ):
        pass
