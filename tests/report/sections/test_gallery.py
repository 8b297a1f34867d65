"""The gallery: which images are chosen, what the attack makes of them, and what the slider shows."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.attacks import FGSM
from soar.data import Split
from soar.evaluation.target import Target
from soar.report.content import RunContent
from soar.report.sections import gallery
from soar.report.sections.gallery import attack_gallery, choose
from soar.report.sections.radius import breaking_radii, threats
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import TinyNet, said
from tests.report.linear import away, linear_target, pixels, split_of
from tests.report.made import CLASSES, made_content
from tests.report.reading import Element, read


# Signs reach the corner of a cube exactly; on a sphere each step leaves 4/5 of the error, a few % in the end.
@pytest.mark.parametrize("threat, slack", [(Linf("0.05"), 0.0), (L2("0.12"), 0.05)])
def test_frames_of_a_linear_model_show_the_worst_points(threat: Threat, slack: float) -> None:
    target = linear_target(threat)
    shown = attack_gallery(target, breaking_radii(target, FGSM()))
    assert len(shown) == 6
    for specimen in shown:
        row = specimen.index - 100
        w, x = away(target, row), target.x[row]
        assert [frame.eps for frame in specimen.frames][:5] == ["0", *_sizes(threat)[:4]]
        largest = threat.ascent(w[None])[0].abs().max() * threats(threat)[-1].radius
        assert specimen.magnified == pytest.approx(127 / 255 / float(largest), rel=1e-5 + slack)
        for frame, radius in zip(
            specimen.frames, [0.0, *(one.radius for one in threats(threat))], strict=True
        ):
            delta = -radius * threat.ascent(w[None])[0]
            _near(pixels(frame.image), 255 * (x + delta)[0], slack * 255 * radius)
            _near(pixels(frame.perturbation), (128 + 255 * specimen.magnified * delta)[0], 128 * slack)
            logits = target.predict((x + delta)[None])
            assert frame.probabilities == pytest.approx(
                logits.softmax(dim=1)[0].tolist(), abs=2e-5 + slack / 10
            )


def test_the_clean_frame_is_the_image_to_the_last_bit() -> None:
    target = linear_target()
    for specimen in attack_gallery(target, breaking_radii(target, FGSM())):
        row = specimen.index - 100
        first = specimen.frames[0]
        assert torch.equal(pixels(first.image), target.images[row, 0].long())
        assert bool((pixels(first.perturbation) == 128).all())
        assert specimen.label == int(target.labels[row])


def test_a_larger_radius_never_shows_a_weaker_point() -> None:
    """On a rough network a search within a larger ball may well end worse; with two classes p_y tells."""
    split, model = split_of(12), TinyNet(classes=2)
    labels = said(model, split.images.double() / 255)
    target = Target(model=model, data=Split(split.images, labels, split.indices), threat=Linf("0.4"))
    shown = attack_gallery(target, breaking_radii(target, FGSM()))
    assert shown
    for specimen in shown:
        shares = [frame.probabilities[specimen.label] for frame in specimen.frames]
        assert shares == sorted(shares, reverse=True)


def test_without_a_correctly_classified_image_there_is_no_gallery() -> None:
    target = linear_target(count=3, wrong=3)
    assert attack_gallery(target, (0, 0, 0)) == ()


@given(st.lists(st.integers(0, 9), max_size=40))
def test_fragile_and_sturdy_examples_are_both_chosen(first: list[int]) -> None:
    chosen = choose(first)
    right = [at for at in first if at > 0]
    assert len(chosen) == len(set(chosen)) == min(6, len(right))
    assert all(first[row] > 0 for row in chosen)
    assert [first[row] for row in chosen] == sorted(first[row] for row in chosen)
    if right:
        assert first[chosen[0]] == min(right)
    if len(right) > 1:
        assert first[chosen[-1]] == max(right)


def _sizes(threat: Threat) -> list[str]:
    return [str(one).split()[1] for one in threats(threat)]


def _near(shown: torch.Tensor, expected: torch.Tensor, slack: float) -> None:
    """Equal, but for rounding to a gray level and what the attack leaves."""
    assert bool(((shown - expected).abs() <= 0.5 + 1e-3 + slack).all())


def shown(run: RunContent) -> tuple[Element, dict[str, Any]]:
    root = read(gallery.draw([run]))
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
    assert card.all(kind="prediction")[0].text == "✗ misclassified: predicted Dress"


def test_the_slider_has_every_frame() -> None:
    (run,) = made_content(1)
    _, data = shown(run)
    assert len(data["images"]) == 6 and data["steps"][0] == "eps = 0: the clean image"
    for frames, image in zip(data["images"], run.gallery, strict=True):
        for frame, made in zip(frames, image.frames, strict=True):
            assert base64.b64decode(frame["image"]) == made.image
            assert base64.b64decode(frame["change"]) == made.perturbation
            top = max(range(10), key=made.probabilities.__getitem__)
            assert frame["predicted"] == CLASSES[top] and frame["correct"] == (top == image.label)
            assert frame["bars"][0] == pytest.approx(made.probabilities[image.label], abs=1e-4)
            assert sum(frame["bars"]) == pytest.approx(1, abs=1e-3)


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
    assert data["images"][0][0]["bars"] == [0.75, 0.25]
    assert root.all(kind="prediction")[0].text == "✓ correct: predicted b"


def test_a_run_without_a_gallery_says_why() -> None:
    (run,) = made_content(1)
    assert "pgd-10 classifies no image correctly" in read(gallery.draw([replace(run, gallery=())])).text
