from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.objectives import OBJECTIVES
from soar.objectives.memory import Memory
from soar.threat import Linf
from tests.attacks.problems import Normalized, images, said
from tests.pretending import DEVICE, on_cpu, pretended

batches = st.lists(
    st.dictionaries(st.integers(0, 40), st.floats(0, 2, width=32), min_size=1, max_size=6), max_size=6
)


@given(batches, st.lists(st.integers(0, 60), max_size=20))
def test_it_is_a_dictionary_with_0_for_what_was_never_seen(
    stored: list[dict[int, float]], asked: list[int]
) -> None:
    memory, expected = Memory(), dict[int, float]()
    for batch in stored:
        memory.store(torch.tensor(list(batch)), torch.tensor(list(batch.values())))
        expected |= batch
        assert len(memory.table) == max(expected) + 1
    found = memory.of(torch.tensor(asked, dtype=torch.int64))
    assert found.tolist() == [expected.get(index, 0) for index in asked]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_numbers_of_any_precision_are_kept_in_float32_without_their_graph(dtype: torch.dtype) -> None:
    memory = Memory()
    memory.store(torch.tensor([1]), torch.tensor([0.25], dtype=dtype, requires_grad=True))
    assert memory.table.tolist() == [0, 0.25]
    assert memory.table.dtype == torch.float32 and not memory.table.requires_grad


def test_an_answer_and_a_question_are_not_the_table() -> None:
    memory = Memory()
    values = torch.tensor([0.5, 1.0])
    memory.store(torch.tensor([0, 1]), values)
    values.zero_()
    memory.of(torch.tensor([0, 1])).fill_(7)
    assert memory.table.tolist() == [0.5, 1.0]


@given(batches)
def test_values_may_have_a_shape_and_a_type_of_their_own(stored: list[dict[int, float]]) -> None:
    memory, expected = Memory(torch.float16), dict[int, float]()
    ends = torch.tensor([[0.5, 0.0, -2.0]])
    for batch in stored:
        values = torch.tensor(list(batch.values()))
        memory.store(torch.tensor(list(batch)), values.reshape(-1, 1, 1) * ends)
        expected |= batch
    found = memory.of(torch.arange(45), (1, 3))
    kept = torch.tensor([expected.get(index, 0.0) for index in range(45)]).reshape(-1, 1, 1) * ends
    assert found.dtype == torch.float16 and torch.equal(found, kept.half())


@pytest.mark.parametrize("name", ["mma", "pgi"])
@pytest.mark.parametrize("index_is_there", [True, False])
def test_the_index_may_be_on_another_device_than_the_images(name: str, index_is_there: bool) -> None:
    x, index = images(6).float(), torch.tensor([4, 0, 9, 2, 3, 7])
    y = said(Normalized().eval(), x)
    expected = OBJECTIVES[name].build(Normalized().eval(), Linf("0.05"))
    losses = [expected(x, y, index, step).loss.detach() for step in range(2)]
    with pretended():
        objective = OBJECTIVES[name].build(Normalized().eval(), Linf("0.05")).to(DEVICE)
        there = index.to(DEVICE) if index_is_there else index
        for step in range(2):
            loss = objective(x.to(DEVICE), y.to(DEVICE), there, step).loss
            torch.testing.assert_close(on_cpu(loss.detach()), losses[step])
    kept = "margins" if name == "mma" else "starts"
    table, own = getattr(objective, kept).table, getattr(expected, kept).table
    assert type(table) is torch.Tensor and len(table) == 10
    torch.testing.assert_close(table, own)
