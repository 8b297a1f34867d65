from __future__ import annotations

import threading
from contextlib import suppress

import torch
from torch import nn

from soar.model_state import placement, probing, uncompiled


def test_everything_is_restored_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model[1].eval()
    model[0].bias.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    with suppress(RuntimeError), probing(model):
        assert not any(module.training for module in model.modules())
        assert not any(parameter.requires_grad for parameter in model.parameters())
        raise RuntimeError
    assert modes == [module.training for module in model.modules()]
    assert flags == [parameter.requires_grad for parameter in model.parameters()]


def test_placement_of_models_with_and_without_numbers() -> None:
    assert placement(nn.Linear(1, 1).double()) == (torch.device("cpu"), torch.float64)
    assert placement(nn.Flatten()) == (torch.device("cpu"), torch.float32)


def test_threads_that_run_models_as_written_leave_compiling_as_it_was() -> None:
    import torch._dynamo
    from torch._dynamo.testing import CompileCounter

    entered, left = threading.Event(), threading.Event()

    def first() -> None:
        with uncompiled():
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait(10)
    with uncompiled():
        left.set()
        thread.join()
    counter = CompileCounter()
    compiled = torch.compile(nn.Linear(2, 2), backend=counter)
    with uncompiled():
        compiled(torch.zeros(1, 2))
    assert counter.frame_count == 0
    compiled(torch.zeros(1, 2))
    assert counter.frame_count == 1
