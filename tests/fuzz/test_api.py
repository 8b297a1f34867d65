"""Call the public API with hostile arguments: nothing but a `UserError` of one line may come out of it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import soar
from soar import models
from soar.attacks import ATTACKS, FAB, FGSM, PGD, Transfer, check_attack, minimal_norm, run
from soar.attacks.attack import Planned
from soar.errors import UserError
from soar.evaluation.examples import gather
from soar.evaluation.methods import METHODS
from soar.objectives import OBJECTIVES, check_objective
from soar.prediction import predict
from soar.threat import L2, Linf, threat
from tests.fuzz import hostile
from tests.fuzz.hostile import ANYTHING, X, Y

calls = hostile.Calls()
LEAST = 1000


def options_of(build: Any) -> list[str]:
    """The keyword-only parameters of an attack or objective."""
    parameters = inspect.signature(build).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def one_of(*pools: list[Any]) -> st.SearchStrategy[Any]:
    """Draw by place, because what is drawn from cannot always be compared or printed."""
    values = [value for pool in pools for value in pool]
    return st.integers(0, len(values) - 1).map(lambda place: values[place])


def mostly(valid: list[Any], pool: list[Any]) -> st.SearchStrategy[Any]:
    """Draw what is valid half of the time, so that one wrong argument is not hidden by another."""
    return st.one_of(one_of(valid), one_of(pool))


@pytest.mark.parametrize("name", [one.name for one in ATTACKS])
def test_options_of_attacks(name: str) -> None:
    for option in options_of(ATTACKS[name].build):
        for value in ANYTHING:
            made = calls(
                ATTACKS[name].build, **({"source": "nowhere"} if name == "transfer" else {}) | {option: value}
            )
            if made is not None:
                assert calls(lambda made=made: (made.label, made.budget, made.entries(5)))
            calls(ATTACKS.build, name, {option: value})


@pytest.mark.parametrize("name", [one.name for one in METHODS])
def test_options_of_methods(name: str) -> None:
    for option in options_of(METHODS[name].build):
        for value in ANYTHING:
            calls(METHODS[name].build, **{option: value})
            calls(METHODS.build, name, {option: value})


def test_certifications() -> None:
    assert calls(soar.certify, hostile.Net(), (X, Y), Linf("0.1"), "ibp").accuracy >= 0
    for value in ANYTHING:
        calls(soar.certify, hostile.Net(), (X, Y), Linf("0.1"), value)
        calls(soar.certify, hostile.Net(), (X, Y), value, "ibp")
        calls(soar.certify, value, (X, Y), Linf("0.1"), "ibp")
    for model in hostile.WRONG_MODELS:
        calls(soar.certify, model, (X, Y), Linf("0.1"), "ibp")
    for data in hostile.data_sets()[::3]:
        calls(soar.certify, hostile.Net(), data, Linf("0.1"), "ibp")


@pytest.mark.parametrize("name", [one.name for one in OBJECTIVES])
def test_options_of_objectives(name: str) -> None:
    for option in options_of(OBJECTIVES[name].build):
        for value in ANYTHING:
            calls(OBJECTIVES[name].build, hostile.Net(), Linf("0.1"), **{option: value})
            calls(OBJECTIVES.build, name, {option: value}, hostile.Net(), Linf("0.1"))
    for value in [*ANYTHING, *hostile.VALID_MODELS, *hostile.WRONG_MODELS]:
        calls(OBJECTIVES[name].build, value, Linf("0.1"))
        calls(OBJECTIVES[name].build, hostile.Net(), value)


def test_threats() -> None:
    for value in ANYTHING:
        for kind in (Linf, L2):
            made = calls(kind, value)
            if made is not None:
                assert calls(lambda made=made: (str(made), repr(made), made.radius))
            calls(kind("0.1").scaled, value)
        for other in ("linf", 0.1):
            calls(threat, value, other)
            calls(threat, other, value)


def test_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = soar.evaluate(hostile.Net(), (X, Y), Linf("0.1"), "fgsm")
    for place in hostile.paths(tmp_path):
        calls(soar.Assessment.load, place)
        calls(soar.Diagnosis.load, place)
        calls(found.save, place)
    for name in [*ANYTHING, "folder:nowhere", "folder:", "nowhere.npz", "cifar-10", "../x", "folder:\x00"]:
        calls(soar.data.load, name, root=tmp_path)
    for value in ANYTHING:
        calls(soar.data.load, "cifar10", root=value)
        calls(models.build, value, seed=0)
        calls(models.build, "cnn6", seed=0, options={"width": 2, "norm": value})
        calls(models.build, "cnn6", seed=0, options=value)
        if not (isinstance(value, int) and value > 10**6):
            calls(models.build, "cnn6", seed=0, options={"width": value})
            calls(models.build, "cnn6", seed=0, num_classes=value, options={"width": 2})
        calls(models.build, "cnn6", seed=0, image_shape=value, options={"width": 2})
        calls(models.build, "cnn6", seed=value, options={"width": 2})


def check_objective_call(draw: Any) -> None:
    name = draw(one_of([one.name for one in OBJECTIVES]))
    model = draw(mostly(hostile.VALID_MODELS, hostile.WRONG_MODELS))
    options: dict[str, Any] = {"steps": 2} if "steps" in options_of(OBJECTIVES[name].build) else {}
    made = calls(OBJECTIVES[name].build, model, Linf("0.1"), **options)
    if made is None:
        return
    for _ in range(2):  # the first call checks more than those that follow
        arguments = draw(mostly([X], hostile.IMAGES)), draw(mostly([Y], hostile.LABELS))
        index, step = (
            draw(mostly([torch.arange(len(Y))], hostile.INDICES)),
            draw(mostly([None], hostile.STEPS)),
        )
        output = calls(made, *arguments, index, step)
        if output is not None and output.loss.requires_grad:
            calls(output.loss.backward)
    good = calls(made, X.double() if model is hostile.VALID_MODELS[-1] else X, Y, torch.arange(len(Y)))
    if model in hostile.VALID_MODELS and model is not hostile.VALID_MODELS[3]:
        assert good is not None and bool(good.loss.isfinite()), (
            "what is valid gives a result, whatever came before"
        )


def check_evaluation(draw: Any, data_sets: list[Any]) -> None:
    wrong = draw(st.sets(st.sampled_from(range(8)), max_size=2))
    pools = [
        (hostile.VALID_MODELS, hostile.WRONG_MODELS + ANYTHING),
        ([(X, Y)], data_sets),
        ([Linf("0.1"), L2("0.5")], hostile.THREATS),
        (["fgsm", "pgd:steps=2"], hostile.ATTACKS),
        ([0], hostile.SEEDS),
        ([128, 3], hostile.BATCH_SIZES),
        (["name"], hostile.NAMES),
        ([()], hostile.CLASS_NAMES),
    ]
    chosen = [draw(one_of(pool[place in wrong])) for place, pool in enumerate(pools)]
    model, data, limits, attacks, seed, batch_size, name, names = chosen
    found = calls(
        soar.evaluate, model, data, limits, attacks, seed=seed, batch_size=batch_size, name=name,
        data_name=name, class_names=names, check=draw(st.booleans()), fast=draw(st.booleans()),
    )  # fmt: skip
    if not wrong:
        assert found is not None and 0 <= found.worst_case <= 1
    if found is not None:
        assert calls(found.as_dict)


def check_diagnosis(draw: Any, data_sets: list[Any]) -> None:
    pools = [
        (hostile.VALID_MODELS[:1], [*ANYTHING, *hostile.WRONG_MODELS[:-5]]),
        ([(X, Y)], [one for one in data_sets if not _is_valid(one)]),
        ([Linf("0.1")], hostile.THREATS[5:]),
        ([0], hostile.SEEDS[5:10]),
        ([4], [0, -1, "4", 1.5, True, None]),
        (["name"], hostile.NAMES[5:]),
    ]
    wrong = draw(st.sampled_from(range(len(pools))))
    chosen = [draw(one_of(pool[place == wrong])) for place, pool in enumerate(pools)]
    model, data, limits, seed, batch_size, name = chosen
    calls(soar.diagnose, model, data, limits, seed=seed, batch_size=batch_size, name=name)


def _is_valid(data: Any) -> bool:
    """Whether it could be diagnosed, which takes long."""
    try:
        return len(gather(data).labels) > 0
    except UserError:
        return False


def check_attacks(draw: Any) -> None:
    model = draw(mostly([hostile.Net()], [*hostile.VALID_MODELS, *hostile.WRONG_MODELS, None, 5]))
    attack = draw(
        mostly([PGD(steps=2), FGSM()], [one for one in hostile.ATTACKS if not isinstance(one, Planned)])
    )
    limits, x = draw(mostly([Linf("0.1")], hostile.THREATS)), draw(mostly([X], hostile.IMAGES))
    y, index = draw(mostly([Y], hostile.LABELS)), draw(mostly([None], hostile.INDICES))
    goal = draw(mostly([None], [Y, Y + 1, *hostile.INDICES]))
    seed, size = draw(mostly([0], hostile.SEEDS)), draw(mostly([3], hostile.BATCH_SIZES))
    calls(run, model, attack, limits, x, y, index=index, goal=goal, seed=seed, batch_size=size)
    calls(predict, model, x, size)
    searcher = draw(mostly([FAB(steps=1, targets=1)], hostile.ATTACKS))
    calls(minimal_norm, model, searcher, limits, x, y, index=index, seed=seed, batch_size=size)


def test_a_whole_diagnosis_gives_a_result() -> None:
    assert calls(soar.diagnose, hostile.Net(), (X, Y), Linf("0.1")).verdict


def test_contracts_and_plans() -> None:
    for value in ANYTHING:
        calls(check_attack, value)
        if not callable(value):
            calls(check_objective, value)
        calls(Planned, FGSM(), samples=value)
        calls(Planned, value)
        calls(Transfer, source=value)
        calls(Transfer, source=hostile.Net(), attack=value)
        calls(predict, value, X)
        calls(predict, hostile.Net(), value)
        calls(check_attack, FGSM(), seed=value)


@settings(max_examples=150)
@given(st.data())
def test_calls_of_objectives(data: st.DataObject) -> None:
    check_objective_call(data.draw)


@settings(max_examples=250)
@given(st.data())
def test_evaluations(data: st.DataObject) -> None:
    check_evaluation(data.draw, hostile.data_sets())


@settings(max_examples=100)
@given(st.data())
def test_diagnoses(data: st.DataObject) -> None:
    check_diagnosis(data.draw, hostile.data_sets())


@settings(max_examples=150)
@given(st.data())
def test_runs_of_attacks(data: st.DataObject) -> None:
    check_attacks(data.draw)


def test_at_least_a_thousand_calls_were_made() -> None:
    if calls.made < LEAST:  # the tests above ran in other processes
        test_threats()
        for entry in ATTACKS:
            test_options_of_attacks(entry.name)
    print(f"{calls.made:,} calls, {calls.refused:,} refused in one line, no other exception")
    assert calls.made >= LEAST and 0 < calls.refused < calls.made


@pytest.mark.slow
@settings(max_examples=5000)
@given(st.data())
def test_many_more_calls(data: st.DataObject) -> None:
    check_objective_call(data.draw)
    check_evaluation(data.draw, hostile.data_sets())
    check_diagnosis(data.draw, hostile.data_sets())
    check_attacks(data.draw)
