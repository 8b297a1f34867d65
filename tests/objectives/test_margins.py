from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.objectives.mma import Margins

batches = st.lists(
    st.dictionaries(st.integers(0, 40), st.floats(0, 2, width=32), min_size=1, max_size=6), max_size=6
)


@given(batches, st.lists(st.integers(0, 60), max_size=20))
def test_it_is_a_dictionary_with_0_for_what_was_never_seen(
    stored: list[dict[int, float]], asked: list[int]
) -> None:
    margins, expected = Margins(), dict[int, float]()
    for batch in stored:
        margins.store(torch.tensor(list(batch)), torch.tensor(list(batch.values())))
        expected |= batch
        assert len(margins.table) == max(expected) + 1
    found = margins.of(torch.tensor(asked, dtype=torch.int64))
    assert found.tolist() == [expected.get(index, 0) for index in asked]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_numbers_of_any_precision_are_kept_in_float32_without_their_graph(dtype: torch.dtype) -> None:
    margins = Margins()
    margins.store(torch.tensor([1]), torch.tensor([0.25], dtype=dtype, requires_grad=True))
    assert margins.table.tolist() == [0, 0.25]
    assert margins.table.dtype == torch.float32 and not margins.table.requires_grad


def test_an_answer_and_a_question_are_not_the_table() -> None:
    margins = Margins()
    values = torch.tensor([0.5, 1.0])
    margins.store(torch.tensor([0, 1]), values)
    values.zero_()
    margins.of(torch.tensor([0, 1])).fill_(7)
    assert margins.table.tolist() == [0.5, 1.0]
