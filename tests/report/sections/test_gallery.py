"""The gallery: what is shown first, and what the slider finds."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from soar.report.content import RunContent
from soar.report.sections.gallery import gallery
from tests.report.made import CLASSES, made_content
from tests.report.reading import Element, read


def shown(run: RunContent) -> tuple[Element, dict[str, Any]]:
    root = read(gallery([run]))
    return root, json.loads(root.all("script", "frames")[0].text)


def test_the_frame_at_eps_is_shown_before_any_script_runs() -> None:
    (run,) = made_content(1)
    root, _ = shown(run)
    slider = root.all("input")[0].attributes
    assert (slider["min"], slider["max"], slider["value"]) == ("0", "8", "4")
    assert root.all("output")[0].text == "eps = 0.1, the threat"
    frame, card = run.gallery[0].frames[4], root.all("article")[0]
    assert frame.eps == "0.1"
    clean, attacked, change = (one.attributes["src"] for one in card.all("img"))
    for source, png in (
        (clean, run.gallery[0].frames[0].image),
        (attacked, frame.image),
        (change, frame.perturbation),
    ):
        assert source == f"data:image/png;base64,{base64.b64encode(png).decode()}"
    assert card.all(kind="share")[0].text == f"{100 * frame.probabilities[0]:.1f}%"
    assert card.all(kind="answer")[0].text == "✗ wrong: the model says Dress"


def test_the_slider_has_every_frame() -> None:
    (run,) = made_content(1)
    _, data = shown(run)
    assert len(data["tracks"]) == 6 and data["steps"][0] == "eps = 0: the clean image"
    for track, specimen in zip(data["tracks"], run.gallery, strict=True):
        assert track["at"] == list(range(9))
        for frame, made in zip(track["frames"], specimen.frames, strict=True):
            assert base64.b64decode(frame["image"]) == made.image
            assert base64.b64decode(frame["change"]) == made.perturbation
            top = max(range(10), key=made.probabilities.__getitem__)
            assert frame["says"] == CLASSES[top] and frame["right"] == (top == specimen.label)
            assert frame["bars"][0] == pytest.approx(made.probabilities[specimen.label], abs=1e-4)
            assert sum(frame["bars"]) == pytest.approx(1, abs=1e-3)


def test_specimens_without_a_frame_at_a_radius_keep_the_one_before() -> None:
    (run,) = made_content(1)
    first = replace(run.gallery[0], frames=run.gallery[0].frames[::4])
    _, data = shown(replace(run, gallery=(first, *run.gallery[1:])))
    assert data["tracks"][0]["at"] == [0, 0, 0, 0, 1, 1, 1, 1, 2]


def test_bars_are_of_the_classes_that_matter() -> None:
    (run,) = made_content(1)
    root, _ = shown(run)
    names = [one.text for one in root.all("article")[0].all(kind="class")]
    assert names[:2] == ["T-shirt (true)", "Dress"] and len(names) == 6 and names[-1] == "others"


def test_few_classes_need_no_others() -> None:
    (run,) = made_content(1)
    frames = tuple(replace(one, probabilities=(0.25, 0.75)) for one in run.gallery[0].frames)
    two = replace(run, classes=("a", "b"), gallery=(replace(run.gallery[0], label=1, frames=frames),))
    root, data = shown(two)
    assert [one.text for one in root.all(kind="class")] == ["b (true)", "a"]
    assert data["tracks"][0]["frames"][0]["bars"] == [0.75, 0.25]
    assert root.all(kind="answer")[0].text == "✓ right: the model says b"
