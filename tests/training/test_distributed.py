from __future__ import annotations

import json
import multiprocessing
import runpy
import socket
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from soar import checkpoints
from soar.objectives import OBJECTIVES
from soar.recipes.settings import ValidationSettings
from soar.threat import Linf
from soar.training.validation import Scores, validate
from tests.training import rank, small

COUPLED = [entry.name for entry in OBJECTIVES if getattr(entry.build, "couples_examples", False)]
INDEPENDENT = [name for name in rank.NAMES if name not in COUPLED]
SCRIPT = Path(__file__).with_name("rank.py")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left behind that trained every objective together."""
    folder = tmp_path_factory.mktemp("together")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "soar.training.trainer", "soar.models"])
    processes = [
        context.Process(
            target=runpy.run_path,
            args=(str(SCRIPT),),
            kwargs={"init_globals": {"OPTIONS": {"rank": r, "folder": str(folder), "port": port}}},
        )
        for r in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    return folder


def found(together: Path, rank: int) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((together / f"found-{rank}.json").read_text())
    return read


@pytest.mark.parametrize("name", INDEPENDENT)
def test_two_processes_give_the_weights_of_one(together: Path, tmp_path: Path, name: str) -> None:
    alone = rank.trainer(name, tmp_path)
    alone.fit()
    expected = small.weights(alone)
    both = [safetensors.torch.load_file(together / f"{name}-{r}.safetensors") for r in range(2)]
    assert small.same(*both), "all processes have the same weights"
    for key, tensor in both[0].items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-9, atol=1e-12)
    start = small.network(dtype=torch.float64).state_dict()
    assert not torch.allclose(expected["0.weight"], start["0.weight"], atol=1e-6), "it has trained"


@pytest.mark.parametrize("name", INDEPENDENT)
def test_metrics_and_average_are_those_of_one_process(together: Path, tmp_path: Path, name: str) -> None:
    rank.trainer(name, tmp_path).fit()
    ours, theirs = small.rows(together / name), small.rows(tmp_path)
    assert [row.keys() for row in ours] == [row.keys() for row in theirs]
    for row, other in zip(ours, theirs, strict=True):
        for key in ("step", "loss", "accuracy", "grad_norm", "lr", "eps", "clean", "robust", "alignment"):
            assert row.get(key, 0) == pytest.approx(other.get(key, 0), rel=1e-6), key
    averages = [checkpoints.load(newest(root)).ema for root in (together / name, tmp_path)]
    assert averages[0] is not None
    assert averages[1] is not None
    for key, tensor in averages[0].items():
        torch.testing.assert_close(tensor, averages[1][key], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", COUPLED)
def test_what_couples_the_examples_of_a_process_is_trained_alike_by_all(together: Path, name: str) -> None:
    both = [safetensors.torch.load_file(together / f"{name}-{r}.safetensors") for r in range(2)]
    start = small.network(dtype=torch.float64).state_dict()
    assert small.same(*both) and not small.same(both[0], start)


@pytest.mark.parametrize("name", rank.REMEMBERING)
def test_what_is_remembered_is_that_of_one_process_on_every_process(
    together: Path, tmp_path: Path, name: str
) -> None:
    alone = rank.remembering(name, tmp_path)
    file = f"remembering {name}-{{}}.safetensors"
    both = [safetensors.torch.load_file(together / file.format(r)) for r in range(2)]
    assert small.same(*both) and both[0].keys() == alone.keys()
    weights = small.network().state_dict()
    for key, tensor in alone.items():
        # What is kept has fewer digits, or is a small difference of losses.
        kept = (2e-3 if tensor.dtype == torch.float16 else 1e-6, 0.0)
        rtol, atol = (1e-9, 1e-12) if key in weights else kept
        torch.testing.assert_close(both[0][key], tensor, rtol=rtol, atol=atol)
    saved = checkpoints.load(newest(together / f"remembering {name}")).trainer["objective"]
    for key, tensor in saved.items():
        assert torch.equal(tensor, both[0][key])
        assert name.startswith("elle") or len(tensor) == 48, "every example is remembered"
        assert len(tensor.unique()) > 1, "values differ"
    assert not name.startswith("elle") or saved["_extra_state"][0] > 0, "the weight has been set"


def newest(run: Path) -> Path:
    path = checkpoints.newest_usable(run)
    assert path is not None
    return path


def test_collectives(together: Path) -> None:
    for r in range(2):
        assert found(together, r)["collectives"] == {
            "rank": r,
            "gather": [{"rank": 0}, {"rank": 1}],
            "mean": [0.5],
            "from_main": "said by 0",
            "on_main": "done by 0",
            "refused": "refused by 0",
            "copy": [10.0],
            "nested": 2,
        }


def test_a_signal_to_one_process_stops_both_after_the_same_step(together: Path, tmp_path: Path) -> None:
    ends = [found(together, r)["interrupted"] for r in range(2)]
    assert ends[0] == ends[1]
    assert ends[0] in [f"interrupted by SIGTERM after {step}" for step in (2, 3, 4)]
    assert [found(together, r)["resumed"] for r in range(2)] == ["finished", "finished"]
    rank.trainer("standard", tmp_path, max_steps=6).fit()
    ours, theirs = (checkpoints.load(newest(run)) for run in (together / "interrupted", tmp_path))
    for key, tensor in ours.model.items():
        torch.testing.assert_close(tensor, theirs.model[key], rtol=1e-9, atol=1e-12)
    assert len(ours.trainer["generators"]) == 2, "every process has its generators back"


def test_processes_of_unequal_pace_agree_on_the_time(together: Path) -> None:
    """Six seconds an update on the average: every sixth of sixty updates of the schedule, ten in a minute."""
    rates = [found(together, r)["timed"] for r in range(2)]
    assert rates[0] == rates[1]
    rising = [(place + 1) / 18 for place in (0, 6, 12)]
    falling = [1 - (place - 18) / 42 for place in range(18, 60, 6)]
    assert rates[0] == pytest.approx([0.1 * rate for rate in (*rising, *falling)])


def test_what_was_validated_is_what_was_saved(together: Path) -> None:
    """With BatchNorm each process has its own statistics; those of rank 0 are judged and saved."""
    scores = [found(together, r)["scores"] for r in range(2)]
    assert scores[0] == scores[1]
    assert found(together, 0)["statistics"] == found(together, 1)["statistics"]
    model = rank.batch_norm().model
    model.load_state_dict(checkpoints.load(newest(together / "batchnorm")).model)
    held_out = small.dataset().validation
    again = validate(model, held_out, Linf("8/255"), ValidationSettings(steps=2), step=3)
    assert Scores(**scores[0]) == again


def test_gradients_are_exchanged_once_an_update(together: Path) -> None:
    """Not once a micro-batch; the network is small enough for a single bucket."""
    assert [found(together, r)["exchanges"] for r in range(2)] == [3, 3]


def test_gradients_are_exchanged_twice_where_weights_are_perturbed(together: Path) -> None:
    """Which way is uphill must be the same everywhere."""
    assert [found(together, r)["more exchanges"] for r in range(2)] == [6, 6]
