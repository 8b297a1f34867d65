from __future__ import annotations

import math

import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from soar import randomness

MANY = randomness.key(7, torch.arange(400), "test")


def test_words_are_those_of_splitmix64() -> None:
    # Published test vector: SplitMix64 from the state 1234567 begins with these two words.
    words = randomness._words(torch.tensor([1234567]), 2)[0]
    expected = [6457827717110365317, 3203168211198807973]
    assert [word % 2**64 for word in words.tolist()] == expected


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.lists(st.integers(0, 10**9), min_size=1))
def test_an_example_gets_the_same_numbers_in_any_batch(seed: int, step: int, examples: list[int]) -> None:
    together = randomness.key(seed, torch.tensor(examples), "a", step)
    alone = torch.cat([randomness.key(seed, example, "a", step) for example in examples])
    assert torch.equal(together, alone)
    assert torch.equal(randomness.normal(together, (3, 5)), randomness.normal(alone, (3, 5)))


def test_steps_may_differ_between_examples() -> None:
    index = torch.arange(4)
    mixed = randomness.key(0, index, "a", torch.tensor([3, 1, 3, 0]))
    for row, step in enumerate([3, 1, 3, 0]):
        assert mixed[row] == randomness.key(0, index, "a", step)[row]


def test_seed_stream_step_and_example_each_change_the_key() -> None:
    keys = [
        randomness.key(0, 0, "a", 0),
        randomness.key(1, 0, "a", 0),
        randomness.key(0, 1, "a", 0),
        randomness.key(0, 0, "b", 0),
        randomness.key(0, 0, "a", 1),
    ]
    assert len({int(key) for key in keys}) == 5


def test_keys_do_not_collide() -> None:
    index = torch.arange(2000)
    keys = torch.cat([randomness.key(0, index, "a", step) for step in range(100)])
    assert len(keys.unique()) == len(keys)


def test_global_generator_is_untouched() -> None:
    before = torch.get_rng_state()
    randomness.normal(MANY, (10,))
    randomness.permutation(MANY, 10)
    assert torch.equal(before, torch.get_rng_state())


def test_uniform_is_uniform() -> None:
    numbers = randomness.uniform(MANY, (500,), torch.float64)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert stats.kstest(numbers.flatten().numpy(), "uniform").pvalue > 1e-3


def test_normal_is_normal_also_in_its_tails() -> None:
    numbers = randomness.normal(MANY, (501,), torch.float64).flatten()
    assert stats.kstest(numbers.numpy(), "norm").pvalue > 1e-3
    beyond_three = (numbers.abs() > 3).double().mean().item()
    assert abs(beyond_three - math.erfc(3 / math.sqrt(2))) < 4e-4


def test_neighboring_numbers_steps_and_examples_are_uncorrelated() -> None:
    count = 200_000
    one = randomness.normal(MANY, (500,), torch.float64)
    other = randomness.normal(randomness.key(7, torch.arange(400), "test", 1), (500,), torch.float64)
    pairs = [(one[:, 1:], one[:, :-1]), (one[1:], one[:-1]), (one, other)]
    for left, right in pairs:
        correlation = numpy.corrcoef(left.flatten().numpy(), right.flatten().numpy())[0, 1]
        assert abs(correlation) < 4.5 / math.sqrt(count)


def test_sign_is_fair() -> None:
    signs = randomness.sign(MANY, (500,))
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean().item()) < 4.5 / math.sqrt(signs.numel())


def test_integers_are_all_equally_likely() -> None:
    counts = randomness.integers(MANY, 7, (500,)).flatten().bincount()
    assert len(counts) == 7
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


@given(st.integers(1, 50))
def test_permutation_is_one(length: int) -> None:
    orders = randomness.permutation(MANY[:5], length)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(length).expand(5, -1))


def test_every_permutation_is_equally_likely() -> None:
    orders = randomness.permutation(randomness.key(3, torch.arange(6000), "order"), 3)
    counts = (orders * torch.tensor([9, 3, 1])).sum(dim=1).unique(return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_values_do_not_depend_on_the_type() -> None:
    single = randomness.uniform(MANY, (9,))
    double = randomness.uniform(MANY, (9,), torch.float64)
    assert torch.equal(single.double(), double)
