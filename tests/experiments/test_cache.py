from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soar.errors import UserError
from soar.experiments.cache import Cache
from soar.experiments.worker import perform
from soar.training.result import Outcome
from tests.experiments import tiny

RECIPE = tiny.recipe()
KEY = tiny.training(Path()).key
STEP = "checkpoints/step-00000004"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    perform(tiny.training(folder), lambda _: None)
    return folder


@pytest.fixture
def cache(whole: Path, tmp_path: Path) -> Cache:
    return Cache(shutil.copytree(whole, tmp_path / "cache"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "half a recipe": (
        lambda run: change(run / "recipe.toml", "[training]", "[training"),
        "recipe.toml: not a TOML file",
    ),
    "no recipe": (lambda run: (run / "recipe.toml").unlink(), "recipe.toml is missing"),
    "the outcome": (lambda run: (run / "outcome.json").write_text('{"status'), "outcome.json: damaged"),
    "a bit of the weights": (
        lambda run: flip(run / STEP / "model.safetensors"),
        "model.safetensors has changed since it was written",
    ),
    "no weights": (
        lambda run: (run / STEP / "model.safetensors").unlink(),
        "model.safetensors is missing",
    ),
    "no checkpoint": (lambda run: shutil.rmtree(run / "checkpoints"), "there is no checkpoint"),
}


def test_an_empty_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "none")
    assert str(cache.condition(KEY)) == "absent"
    assert not cache.is_trained(KEY)
    assert cache.load_result("m") is None
    assert not (tmp_path / "none").exists()


def test_a_whole_network(cache: Cache) -> None:
    assert cache.is_trained(KEY)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_network_is_set_aside_and_made_again(cache: Cache, name: str) -> None:
    run = cache.network(KEY)
    weights = (run / STEP / "model.safetensors").read_bytes()
    damage, why = DAMAGES[name]
    damage(run)
    assert cache.condition(KEY).name == "damaged"
    assert why in cache.condition(KEY).why
    assert not cache.is_trained(KEY)
    said: list[str] = []
    perform(tiny.training(cache.folder), said.append)
    assert why in said[0] and f"{KEY}.damaged-1, and it is trained again" in said[0]
    assert cache.is_trained(KEY)
    assert cache.network(f"{KEY}.damaged-1").is_dir()
    assert (run / STEP / "model.safetensors").read_bytes() == weights


def test_the_second_damage_gets_the_next_number(cache: Cache) -> None:
    shutil.copytree(cache.network(KEY), cache.network(f"{KEY}.damaged-1"))
    assert cache.set_aside(cache.network(KEY)).name == f"{KEY}.damaged-2"


def test_a_training_under_way_is_not_trained_and_goes_on(cache: Cache) -> None:
    (cache.network(KEY) / "outcome.json").unlink()
    assert cache.condition(KEY).name == "unfinished"
    assert not cache.is_trained(KEY)
    perform(tiny.training(cache.folder), lambda _: None)
    assert cache.is_trained(KEY)


def test_a_stopped_training_is_not_trained_and_not_repeated(cache: Cache) -> None:
    Outcome("stopped", "the loss is nan", 1.0).save(cache.network(KEY))
    assert not cache.is_trained(KEY)
    said: list[str] = []
    with pytest.raises(UserError, match=rf"^training was stopped: the loss is nan .*{KEY}.$"):
        perform(tiny.training(cache.folder), said.append)
    assert said == []


def test_results_come_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.save_result("m", {"value": 31.25, "low": float("nan"), "right": "01", "details": {"b": [1.0, 2]}})
    assert cache.load_result("m") == {
        "format": 1,
        "kind": "measurement",
        "key": "m",
        "value": 31.25,
        "low": None,
        "right": "01",
        "details": {"b": [1.0, 2]},
    }
    assert [one.name for one in cache.result("m").parent.iterdir()] == ["m.json"]


@pytest.mark.parametrize(
    "damage, why",
    [
        (lambda path: change(path, "31.25", "91.25"), "changed since it was written"),
        (lambda path: path.write_text(path.read_text()[:-20]), "damaged or not JSON"),
        (lambda path: path.write_bytes(b""), "damaged or not JSON"),
        (lambda path: path.write_bytes(b"\xff"), "not a text file"),
        (lambda path: path.write_text("[]"), "JSON of something else"),
        (lambda path: change(path, '"format": 1', '"format": 2'), "version 2"),
    ],
)
def test_a_damaged_result_is_told_and_not_used(tmp_path: Path, damage: Any, why: str) -> None:
    cache = Cache(tmp_path)
    cache.save_result("m", {"value": 31.25})
    damage(cache.result("m"))
    with pytest.warns(UserWarning, match=f"{why}.*it is not used$"):
        assert cache.load_result("m") is None
    with pytest.warns(UserWarning, match=why):
        cache.save_result("m", {"value": 1.5})
    assert (cache.load_result("m") or {})["value"] == 1.5
    assert (tmp_path / "results" / "m.json.damaged-1").exists()


def test_a_result_of_another_key_is_not_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.save_result("m", {"value": 1.0})
    cache.result("m").rename(cache.result("n"))
    with pytest.warns(UserWarning, match="it belongs to m"):
        assert cache.load_result("n") is None


def test_one_at_a_time_works_on_a_key(tmp_path: Path) -> None:
    cache, order, waits = Cache(tmp_path), [], threading.Event()

    def second() -> None:
        with cache.reserved("k", lambda _: waits.set()):
            order.append("second")

    with cache.reserved("k", lambda _: None), cache.reserved("other", lambda _: None):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def test_the_sum_of_a_result_is_in_the_file(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.save_result("m", {"value": 2})
    assert len(json.loads(cache.result("m").read_text())["sha256"]) == 64
