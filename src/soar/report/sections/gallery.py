"""The gallery: images, what the attack makes of them as eps grows, and what the model predicts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from soar import epsilon, losses
from soar.evaluation.target import Target
from soar.report.drawing import png
from soar.report.markup import Child, Html, bar, embedded, join, missing, panels, section, tag
from soar.report.sections.radius import threats
from soar.report.sections.surfaces import highest_margin_points
from soar.text import percent

if TYPE_CHECKING:
    from soar.report.content import RunContent

IMAGES = 6
# Bars of more classes than this are not read; the others are added up in one.
_BARS = 5


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One position of the slider: an image attacked within a radius."""

    eps: str
    """the radius as people write it, such as 8/255; 0 for the clean image"""
    image: bytes
    """PNG"""
    perturbation: bytes
    """PNG of the perturbation, magnified around gray"""
    probabilities: tuple[float, ...]
    """the model's probability of each class"""


@dataclass(frozen=True, kw_only=True)
class GalleryImage:
    """One example of the gallery, with the same radii as all others."""

    index: int
    label: int
    magnified: float
    """factor of the images of the perturbation"""
    frames: tuple[Frame, ...]
    """from radius 0 on"""


def attack_gallery(target: Target, breaks: Sequence[int]) -> tuple[GalleryImage, ...]:
    """Attack images from the least to the most robust within growing radii.

    Args:
        target: the model, its examples and the threat
        breaks: the radius at which each example breaks, as a position among the radii
    """
    rows = torch.tensor(choose(breaks), dtype=torch.int64, device="cpu")
    if not len(rows):
        return ()
    sizes = ["0", *(epsilon.show(ball.eps) for ball in threats(target.threat))]
    points = _trail(target, rows)
    shares = target.predict(points.flatten(0, 1)).cpu().double().softmax(dim=1).reshape(*points.shape[:2], -1)
    return tuple(
        _gallery_image(target, int(row), sizes, points[:, place], shares[:, place])
        for place, row in enumerate(rows)
    )


def choose(first: Sequence[int], count: int = IMAGES) -> list[int]:
    """Choose correctly classified examples, evenly from those that break first to those that never break.

    The least and the most robust example are always there.

    Args:
        first: the radius at which each example breaks; 0 for the clean image
        count: how many to choose

    >>> choose([0, 1, 1, 9, 4, 1], count=3)
    [1, 5, 3]
    """
    ranked = sorted((row for row, at in enumerate(first) if at > 0), key=lambda row: (first[row], row))
    count = min(count, len(ranked))
    return [ranked[round(place * (len(ranked) - 1) / max(1, count - 1))] for place in range(count)]


def _trail(target: Target, rows: Tensor) -> Tensor:
    """Return the worst point within every radius, the image first; shape (radii, examples, image)."""
    labels = target.y[rows]
    trail = [target.x[rows]]
    highest = losses.margin(target.logits[rows], labels)
    for ball in threats(target.threat):
        points = highest_margin_points(target, rows, ball)
        height = losses.margin(target.predict(points), labels)
        # What was found within a smaller radius is allowed within this one too.
        is_worse = height > highest
        trail.append(torch.where(is_worse[:, None, None, None], points, trail[-1]))
        highest = torch.where(is_worse, height, highest)
    return torch.stack(trail)


def _gallery_image(
    target: Target, row: int, sizes: list[str], points: Tensor, shares: Tensor
) -> GalleryImage:
    perturbations = (points - target.x[row]).cpu().double()
    largest = float(perturbations.abs().max())
    # The largest change of a pixel just fills the range, so that no frame is clipped.
    factor = 127 / 255 / largest if largest > 0 else 1.0
    frames = [
        Frame(
            eps=size,
            image=png.encode(point),
            perturbation=png.encode(128 / 255 + factor * perturbation),
            probabilities=tuple(round(share, 5) for share in row_shares.tolist()),
        )
        for size, point, perturbation, row_shares in zip(sizes, points, perturbations, shares, strict=True)
    ]
    return GalleryImage(
        index=int(target.index[row]), label=int(target.labels[row]), magnified=factor, frames=tuple(frames)
    )


def draw(runs: Sequence[RunContent]) -> Html:
    """Draw the images of every run, with a slider for the radius."""
    return section(
        "gallery",
        "Adversarial examples",
        panels("gallery", runs, _panel),
        lead="Move the slider: image, perturbation and probabilities change together.",
    )


def _panel(place: int, run: RunContent) -> Html:
    if not run.gallery:
        return missing(f"{run.name} classifies no image correctly, so there is none to attack.")
    threat, name = run.assessment.threat, f"eps-{place}"
    sizes = [frame.eps for frame in run.gallery[0].frames]
    start = sizes.index(epsilon.show(threat.eps))
    steps = ["eps = 0: the clean image", *(f"eps = {size}" for size in sizes[1:])]
    steps[start] += ", the threat"
    slider = tag(
        "div",
        tag("label", f"Radius eps ({threat.norm_name})", for_=name),
        tag("input", type="range", id=name, min=0, max=len(steps) - 1, step=1, value=start, hidden=True),
        tag("output", steps[start], for_=name),
        class_="slider",
    )
    frames = [[_frame_data(one, frame, run.classes) for frame in one.frames] for one in run.gallery]
    return tag(
        "div",
        slider,
        tag("div", *(_card(one, run.classes, start) for one in run.gallery), class_="cards specimens"),
        embedded({"steps": steps, "images": frames}, class_="frames"),
        class_="gallery",
    )


def _card(one: GalleryImage, classes: Sequence[str], start: int) -> Html:
    """Draw an image as it is at the initial position of the slider."""
    frame, name = one.frames[start], f"example {one.index}"
    times = join(Html("change &times; "), f"{one.magnified:.3g}")
    data = _frame_data(one, frame, classes)
    true = join(classes[one.label], tag("span", " (true)", class_="small"))
    names = [true, *(classes[label] for label in _bar_classes(one)[1:]), "others"]
    kind, sign = ("correct", "✓ correct") if data["correct"] else ("wrong", "✗ misclassified")
    return tag(
        "article",
        tag("h4", "Example ", one.index, ": ", tag("span", classes[one.label])),
        tag(
            "p",
            tag("span", sign, class_="mark"),
            ": predicted ",
            tag("b", data["predicted"], class_="predicted"),
            class_=f"prediction {kind}",
        ),
        tag(
            "div",
            _picture(one.frames[0].image, "clean", f"{name}, clean", "clean"),
            _picture(frame.image, "attacked", f"{name}, attacked", "attacked"),
            _picture(frame.perturbation, times, "the perturbation, magnified", "change"),
            class_="images",
        ),
        tag("ul", *(_bar(*pair) for pair in zip(names, data["bars"], strict=False)), class_="shares"),
        class_="card specimen",
    )


def _frame_data(one: GalleryImage, frame: Frame, classes: Sequence[str]) -> dict[str, Any]:
    """Return everything that the slider changes as plain values."""
    shown = [frame.probabilities[label] for label in _bar_classes(one)]
    rest = [] if len(shown) == len(classes) else [max(0.0, 1 - sum(shown))]
    highest = max(frame.probabilities)
    return {
        "image": b64encode(frame.image).decode(),
        "change": b64encode(frame.perturbation).decode(),
        "bars": [round(share, 5) for share in (*shown, *rest)],
        "predicted": classes[frame.probabilities.index(highest)],
        "correct": frame.probabilities[one.label] == highest,
    }


def _bar_classes(one: GalleryImage) -> list[int]:
    """Return the classes that get a bar: the true one, then those with the highest probability anywhere."""
    peaks = [max(shares) for shares in zip(*(frame.probabilities for frame in one.frames), strict=True)]
    others = sorted((c for c in range(len(peaks)) if c != one.label), key=lambda c: -peaks[c])
    return [one.label, *others[: _BARS - 1]]


def _picture(encoded: bytes, caption: Child, alt: str, kind: str) -> Html:
    image = tag("img", src=png.data_uri(encoded), alt=alt, class_=kind)
    return tag("figure", image, tag("figcaption", caption))


def _bar(name: Child, share: float) -> Html:
    return tag(
        "li", tag("span", name, class_="class"), bar(share), tag("span", percent(share), class_="share")
    )
