from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from soar.errors import UserError
from soar.evaluation import Assessment, Note
from soar.evaluation.diagnosis import SEVERITY, Diagnosis
from soar.evaluation.files import as_text, read_json, write_json
from tests.evaluation.test_assessment import assessment, diagnosis

T = TypeVar("T")
Tree = dict[str, Any]
Change = Callable[[Tree], object]


def whole() -> Tree:
    return replace(assessment(), diagnosis=diagnosis(), notes=(Note("random", "odd"),)).as_dict()


def complaint(path: Path, load: Callable[[Path], object] = Assessment.load) -> str:
    """What is said about a file, after its name."""
    with pytest.raises(UserError) as caught:
        load(path)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def loaded_or_refused(path: Path, load: Callable[[Path], T]) -> T | None:
    """Load a file; where that is refused, nothing but one line about the file may come."""
    try:
        return load(path)
    except UserError as error:
        text = str(error)
    assert "\n" not in text and text.startswith(f"{path}: ")
    return None


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "damaged or not JSON from line 1 on, expected an assessment written by soar"),
        (b"not json", "damaged or not JSON from line 1 on, expected an assessment written by soar"),
        (b"\x89PNG\r\n\xff\x00", "not a text file, expected an assessment written by soar"),
        (b"[]", "JSON of something else, expected an assessment written by soar"),
        (b"3", "JSON of something else, expected an assessment written by soar"),
        (b"null", "JSON of something else, expected an assessment written by soar"),
        (b'{"a": 1}', "JSON of something else, expected an assessment written by soar"),
        (b'{"format": 2, "kind": [1]}', "got something else, expected an assessment written by soar"),
        (b'{"format": 2, "seed": NaN}', "damaged assessment (NaN is not a number that JSON knows)"),
        (b'{"format": 2, "seed": 1e999}', "damaged assessment (1e999 is too large)"),
        (b'{"format": 4}', "damaged assessment (Object missing required field `model`)"),
        (b'{"format": 2, "a":' + b"[" * 100_000, "damaged assessment (RecursionError: "),
        (b'{"format": 2, "seed": ' + b"9" * 5000 + b"}", "damaged assessment (Exceeds the limit"),
    ],
)
def test_foreign_files_get_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert complaint(path).startswith(message)


def test_missing_files_and_folders_get_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none.json") == "cannot be read (No such file or directory)"
    assert complaint(tmp_path) == "cannot be read (Is a directory)"


def test_a_file_cut_anywhere_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = as_text(whole())
    for length in range(0, len(text) - 1, 97):
        path.write_text(text[:length])
        assert complaint(path).startswith("damaged or not JSON from line ")


def test_one_kind_is_not_taken_for_another(tmp_path: Path) -> None:
    diagnosis().save(tmp_path / "d.json")
    assessment().save(tmp_path / "a.json")
    said = complaint(tmp_path / "d.json")
    assert said == "got a diagnosis, expected an assessment written by soar"
    said = complaint(tmp_path / "a.json", Diagnosis.load)
    assert said == "got an assessment, expected a diagnosis written by soar"


@pytest.mark.parametrize("version", [0, 1, 2, 3, 99, "99", 3.5, True, None, [2]])
def test_other_versions_are_refused_by_name(tmp_path: Path, version: object) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(whole() | {"format": version}))
    assert complaint(path) == (
        f"got version {version!r} of the assessment format, expected 5;"
        " it was written by another version of soar"
    )
    path.write_text(json.dumps(diagnosis().as_dict() | {"format": 2}))
    said = complaint(path, Diagnosis.load)
    assert said.startswith("got version 2 of the diagnosis format, expected 4;")


def put(*way: Any, value: Any) -> Change:
    def change(tree: Any) -> None:
        for step in way[:-1]:
            tree = tree[step]
        tree[way[-1]] = value

    return change


DAMAGE: list[tuple[Change, str]] = [
    (put("correct", value="1111"), "correct has 4 entries for 5 examples"),
    (put("correct", value="1111x"), "Expected `str` matching regex '^[01]*$' - at `$.correct`"),
    (put("attacks", 0, "robust", value="110001"), "attacks[0].robust has 6 entries for 5 examples"),
    (put("attacks", 1, "robust", value="10101"), "attacks[1].robust has examples that are not correct"),
    (put("attacks", 1, "forward", value=[1, 2]), "attacks[1].forward has 2 entries for 5 examples"),
    (put("attacks", 0, "backward", 2, value=-1), "Expected `int` >= 0 - at `$.attacks[0].backward[2]`"),
    (
        put("attacks", 0, "backward", 2, value=1.5),
        "Expected `int`, got `float` - at `$.attacks[0].backward",
    ),
    (
        put("attacks", 0, "backward", 2, value=True),
        "Expected `int`, got `bool` - at `$.attacks[0].backward",
    ),
    (put("attacks", 0, "forward", 2, value=10**30), "Expected `int` <= 9007199254740991"),
    (
        put("attacks", 0, "predictions", 0, value=2),
        "predictions[0] is 2 but robust says otherwise",
    ),
    (
        put("attacks", 0, "predictions", 4, value=1),
        "predictions[4] is 1 but robust says otherwise",
    ),
    (put("attacks", 1, "label", value="A"), "two attacks have the same label"),
    (put("attacks", 1, "label", value="clean"), "two attacks have the same label"),
    (put("attacks", 1, "label", value="C"), "accuracy does not name clean, the attacks and the worst case"),
    (put("attacks", 0, "samples", value=0), "Expected `int` >= 1 - at `$.attacks[0].samples`"),
    (put("attacks", 0, "other", value=0), "Object contains unknown field `other` - at `$.attacks[0]`"),
    (put("attacks", 0, value=[]), "Expected `object`, got `array` - at `$.attacks[0]`"),
    (put("clean_predictions", 0, value=1), "clean_predictions[0] is 1 but correct says otherwise"),
    (put("index", 0, value=4), "index names an example twice"),
    (put("index", 0, value="0"), "Expected `int`, got `str` - at `$.index[0]`"),
    (put("labels", 0, value=7), "label 7 has no name in classes, which are 3"),
    (put("labels", value=None), "Expected `array`, got `null` - at `$.labels`"),
    (put("examples", value=4), "index has 5 entries for 4 examples"),
    (put("threat", "norm", value="l7"), "Invalid enum value 'l7' - at `$.threat.norm`"),
    (put("threat", "eps", value="-1"), "Expected `str` matching regex"),
    (put("threat", "eps", value="1e999999999"), "Expected `str` matching regex"),
    (put("threat", "eps", value="1/0"), "threat.eps: got '1/0', expected a positive number"),
    (put("threat", "eps", value="2"), "threat.eps: got 2 for linf, expected at most 1"),
    (put("accuracy", "clean", "share", value=0.9), "accuracy of clean is 0.9 but the examples give 0.8"),
    (
        put("accuracy", "worst case", "share", value=0.4),
        "accuracy of worst case is 0.4 but the examples give 0.2",
    ),
    (put("diagnosis", "checks", 0, "finding", value="fine"), "Invalid enum value 'fine'"),
    (put("diagnosis", "format", value=2), "Invalid enum value 2 - at `$.diagnosis.format`"),
    (put("weights", value={"file": "w", "sha256": "0", "step": 1}), "Expected `str` matching regex"),
    (lambda tree: tree.pop("seed"), "Object missing required field `seed`"),
    (
        lambda tree: tree["attacks"][0].pop("predictions"),
        "Object missing required field `predictions` - at `$.attacks[0]`",
    ),
    (lambda tree: tree["threat"].pop("eps"), "Object missing required field `eps` - at `$.threat`"),
]


@pytest.mark.parametrize("change, message", DAMAGE, ids=[message[:50] for _, message in DAMAGE])
def test_damage_is_named(tmp_path: Path, change: Change, message: str) -> None:
    tree = whole()
    change(tree)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(tree))
    said = complaint(path)
    assert said.startswith("damaged assessment (") and message in said


def places(tree: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way into a tree."""
    if way:
        yield way
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, child in children:
        yield from places(child, (*way, name))


def mutated(tree: Tree, way: tuple[Any, ...], action: str, value: Any) -> Tree:
    """A copy in which one place is removed, doubled or replaced."""
    tree = copy.deepcopy(tree)
    at: Any = tree
    for step in way[:-1]:
        at = at[step]
    if action == "remove":
        del at[way[-1]]
    elif action == "double":
        at[way[-1]] = [at[way[-1]], at[way[-1]]]
    else:
        at[way[-1]] = value
    return tree


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1/0", "0", "1e-9", "11110", "masked", "\ud800", 2**63, -(2**63) - 1, 2**53]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_was_tampered_with_loads_or_gets_one_line(tmp_path: Path, data: st.DataObject) -> None:
    tree = whole()
    for _ in range(data.draw(st.integers(1, 2))):
        way = data.draw(st.sampled_from(list(places(tree))))
        tree = mutated(
            tree, way, data.draw(st.sampled_from(["remove", "double", "replace"])), data.draw(VALUES)
        )
    path = tmp_path / "a.json"
    path.write_text(json.dumps(tree))
    found = loaded_or_refused(path, Assessment.load)
    if found is None:
        return
    # What loads is whole: every question has an answer, and saving it again loses nothing.
    for name in found.names:
        said = found.predictions(name)
        assert 0 <= found.accuracy(name) <= 1 and (said is None or len(said) == len(found))
    found.save(path)
    assert Assessment.load(path).as_dict() == found.as_dict()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_diagnosis_that_was_tampered_with_loads_or_gets_one_line(
    tmp_path: Path, data: st.DataObject
) -> None:
    tree = diagnosis().as_dict()
    way = data.draw(st.sampled_from(list(places(tree))))
    path = tmp_path / "d.json"
    path.write_text(
        json.dumps(mutated(tree, way, data.draw(st.sampled_from(["remove", "replace"])), data.draw(VALUES)))
    )
    found = loaded_or_refused(path, Diagnosis.load)
    assert found is None or found.verdict in SEVERITY


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_changed_byte_is_noticed_or_harmless(tmp_path: Path, at: int, byte: int) -> None:
    content = bytearray(as_text(whole()).encode())
    content[at % len(content)] = byte
    path = tmp_path / "a.json"
    path.write_bytes(bytes(content))
    loaded_or_refused(path, Assessment.load)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(value=PLAIN)
def test_text_says_the_same_as_the_values(value: Any) -> None:
    assert json.loads(as_text(value)) == value


def test_numbers_that_are_not_finite_become_null() -> None:
    assert as_text([1.0, float("nan"), float("-inf")]) == "[1.0, null, null]"
    assert as_text({"a": ()}) == '{\n "a": []\n}'


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json({"a": 1}, path)
    with pytest.raises(TypeError):
        write_json({"a": object()}, path)
    assert json.loads(path.read_text()) == {"a": 1} and list(tmp_path.iterdir()) == [path]


def test_other_kinds_of_files_can_be_kept_in_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json({"format": 4, "kind": "thing", "n": 3}, path)
    assert read_json(path, kind="thing", version=4, make=lambda stored: stored["n"]) == 3
    said = complaint(path, lambda path: read_json(path, kind="thing", version=4, make=lambda s: s["m"]))
    assert said == "damaged thing (KeyError: 'm')"
