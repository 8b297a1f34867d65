import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.data import load
from soar.data.loading import hold_out
from soar.errors import UserError
from tests.data.test_published import publish


@given(st.lists(st.integers(0, 4), min_size=2, max_size=200), st.data(), st.integers(0, 2**32))
def test_parts_are_disjoint_complete_and_mixed_alike(
    labels: list[int], data: st.DataObject, seed: int
) -> None:
    count = data.draw(st.integers(0, len(labels) - 1))
    given_labels = torch.tensor(labels)
    learn, held_out = hold_out(given_labels, count, seed=seed)
    assert sorted(learn.tolist() + held_out.tolist()) == list(range(len(labels)))
    assert len(held_out) == count
    assert held_out.tolist() == sorted(held_out.tolist())
    for label in range(5):
        expected = labels.count(label) * count / len(labels)
        assert abs(int((given_labels[held_out] == label).sum()) - expected) < 1


def test_the_seed_decides() -> None:
    labels = torch.arange(100) % 10
    first, again, other = (hold_out(labels, 20, seed=seed)[1] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_smaller_part_is_inside_a_larger_one() -> None:
    labels = torch.arange(1000) % 10
    small, large = (set(hold_out(labels, n, seed=0)[1].tolist()) for n in (50, 200))
    assert small < large


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    hold_out(torch.arange(100) % 10, 20, seed=1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("count", [-1, 100, 101])
def test_an_impossible_size_is_refused(count: int) -> None:
    with pytest.raises(UserError, match=rf"data\.validation: got {count}, allowed are 0 to 99"):
        hold_out(torch.arange(100) % 10, count, seed=0)


def test_the_sample_is_divided_by_class() -> None:
    data = load("fashion-mnist-sample", validation=500, seed=3)
    assert torch.bincount(data.validation.labels).tolist() == [50] * 10
    assert torch.bincount(data.train.labels).tolist() == [950] * 10
    assert data.classes[9] == "ankle boot"
    ids = torch.cat([data.train.indices, data.validation.indices])
    assert len(ids.unique()) == 10000


def test_the_test_set_does_not_depend_on_the_seed() -> None:
    tests = [load("fashion-mnist-sample", validation=0, seed=seed).test for seed in (0, 1)]
    assert torch.equal(tests[0].images, tests[1].images)
    assert len(load("fashion-mnist-sample", validation=0).train) == 10000


def test_indices_identify_examples_whatever_the_seed() -> None:
    one, two = (load("fashion-mnist-sample", seed=seed) for seed in (0, 1))
    index = int(one.validation.indices[7])
    where = (torch.cat([two.train.indices, two.validation.indices]) == index).nonzero()[0, 0]
    images = torch.cat([two.train.images, two.validation.images])
    assert torch.equal(images[where], one.validation.images[7])


def test_a_fetched_data_set_is_found_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cifar10").mkdir()
    publish("cifar10", tmp_path / "cifar10", monkeypatch)
    monkeypatch.setenv("SOAR_DATA", str(tmp_path))
    data = load("cifar10")
    assert (len(data.train), len(data.validation), len(data.test)) == (9, 1, 2)
    assert data.shape == (3, 32, 32)


def test_evaluation_needs_no_training_examples(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x_test=np.zeros((3, 8, 8), np.uint8), y_test=np.arange(3))
    data = load(str(tmp_path / "own.npz"))
    assert (len(data.train), len(data.validation), len(data.test)) == (0, 0, 3)
    assert data.name == str(tmp_path / "own.npz")


@pytest.mark.slow
def test_the_real_cifar10_is_what_was_published() -> None:
    if "SOAR_DATA" not in os.environ:
        pytest.skip("SOAR_DATA does not say where CIFAR-10 is")
    data = load("cifar10", validation=0)
    assert torch.bincount(data.train.labels).tolist() == [5000] * 10
    assert data.test.labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    pixels = data.train.images.double() / 255
    means = pixels.mean((0, 2, 3))
    assert torch.allclose(means, torch.tensor([0.4914, 0.4822, 0.4465]).double(), atol=1e-4)


def write_archive(path: Path, labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Path:
    images = np.zeros((len(labels), 4, 4), np.uint8)
    images[:, 0, 0] = np.arange(len(labels))
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    return path


def test_files_that_list_one_class_after_the_other_are_mixed(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(4), 50)
    path = write_archive(tmp_path / "sorted.npz", labels)
    data, again = load(str(path), validation=40), load(str(path), validation=40)
    for split in (data.train, data.validation, data.test):
        # Without mixing the first ten are all of class 0.
        assert len(split.labels[:10].unique()) > 1
        assert torch.equal(split.images[:, 0, 0, 0].long(), split.indices)
        assert split.labels.tolist() == labels[split.indices].tolist()
    assert sorted(data.test.indices.tolist()) == list(range(200))
    assert torch.equal(data.test.indices, again.test.indices)


@pytest.mark.parametrize("labels", [[0, 1, 0, 1], [1, 1, 1, 1], [1, 0, 1, 1]])
def test_other_files_keep_their_order(tmp_path: Path, labels: list[int]) -> None:
    data = load(str(write_archive(tmp_path / "mixed.npz", np.array(labels))), validation=0)
    assert data.test.labels.tolist() == labels and data.test.indices.tolist() == [0, 1, 2, 3]
