"""The gallery: images, what the attack made of them within a growing radius, and what the model then says."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from soar import epsilon
from soar.report.content import Frame, RunContent, Specimen
from soar.report.markup import Child, Html, embedded, join, tag
from soar.report.sections.layout import bar, missing, panels, section
from soar.text import percent

# Bars of more classes than this are not read any more; the others are summed up in one.
_BARS = 5


def gallery(runs: Sequence[RunContent]) -> Html:
    """Show the specimens of every run; a slider moves them all through the radii."""
    known = [run for run in runs if run.gallery]
    without = [run.name for run in runs if not run.gallery]
    how = missing(
        f"No pictures of {', '.join(without)}: make the report again with the run's model and data."
    )
    return section(
        "gallery",
        "What the attack does",
        panels("gallery", known, _panel) if known else None,
        how if without else None,
        lead="Move the slider: image, perturbation and probabilities change together.",
    )


def _panel(place: int, run: RunContent) -> Html:
    steps = _steps(run.gallery)
    start = _start(steps, run.assessment.threat.radius)
    tracks = [_Track(one, run.classes, steps) for one in run.gallery]
    name = f"eps-{place}"
    slider = tag(
        "div",
        tag("label", f"Radius eps ({run.assessment.threat.norm_name})", for_=name),
        tag("input", type="range", id=name, min=0, max=len(steps) - 1, step=1, value=start, hidden=True),
        tag("output", _said(steps[start], run), for_=name),
        class_="slider",
    )
    data = {"steps": [_said(step, run) for step in steps], "tracks": [track.as_data() for track in tracks]}
    return tag(
        "div",
        slider,
        tag("div", *(track.card(start) for track in tracks), class_="cards specimens"),
        embedded(data, class_="frames"),
        class_="gallery",
    )


def _said(step: str, run: RunContent) -> str:
    size = run.assessment.threat.eps
    if step == "0":
        return "eps = 0: the clean image"
    return f"eps = {step}" + (", the threat" if epsilon.parse(step) == size else "")


def _number(step: str) -> float:
    return 0.0 if step == "0" else float(epsilon.parse(step))


def _steps(specimens: Sequence[Specimen]) -> list[str]:
    """Return all radii at which there is a frame, in order."""
    return sorted({frame.eps for one in specimens for frame in one.frames}, key=_number)


def _start(steps: Sequence[str], radius: float) -> int:
    """Return the place of the threat's own radius, or of the nearest one."""
    return min(range(len(steps)), key=lambda place: abs(_number(steps[place]) - radius))


def _source(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode()}"


class _Track:
    """One specimen along the slider."""

    def __init__(self, specimen: Specimen, classes: Sequence[str], steps: Sequence[str]) -> None:
        self.specimen, self.frames = specimen, specimen.frames
        self.classes = classes
        # Where a specimen has no frame at a radius, the last one before it is shown.
        self.at = [max(k for k, f in enumerate(self.frames) if _number(f.eps) <= _number(s)) for s in steps]
        peaks = [max(frame.probabilities[c] for frame in self.frames) for c in range(len(classes))]
        others = sorted((c for c in range(len(classes)) if c != specimen.label), key=lambda c: -peaks[c])
        self.bars = [specimen.label, *others[: _BARS - 1]]

    def as_data(self) -> dict[str, Any]:
        """Return everything that the slider changes as plain values."""
        return {
            "at": self.at,
            "frames": [
                {
                    "image": b64encode(frame.image).decode(),
                    "change": b64encode(frame.perturbation).decode(),
                    "bars": [round(share, 4) for share in self._shares(frame)],
                    "says": self._says(frame),
                    "right": self._is_right(frame),
                }
                for frame in self.frames
            ],
        }

    def card(self, start: int) -> Html:
        """Draw the specimen as it is where the slider starts."""
        first, frame, label = self.frames[0], self.frames[self.at[start]], self.classes[self.specimen.label]
        times = f"{self.specimen.magnified:.3g}"
        shares = zip([*(self.classes[c] for c in self.bars), "others"], self._shares(frame), strict=False)
        return tag(
            "article",
            tag("h4", "Example ", self.specimen.index, ": ", tag("span", label)),
            self._judgment(frame),
            tag(
                "div",
                _picture(first.image, "clean", f"example {self.specimen.index}, clean"),
                _picture(frame.image, "attacked", f"example {self.specimen.index}, attacked", "attacked"),
                _picture(
                    frame.perturbation,
                    join(Html("change &times; "), times),
                    "the perturbation, magnified",
                    "change",
                ),
                class_="pictures",
            ),
            tag(
                "ul", *(_bar(name, share, k == 0) for k, (name, share) in enumerate(shares)), class_="shares"
            ),
            class_="card specimen",
        )

    def _shares(self, frame: Frame) -> list[float]:
        shown = [frame.probabilities[c] for c in self.bars]
        return shown if len(self.bars) == len(self.classes) else [*shown, max(0.0, 1 - sum(shown))]

    def _says(self, frame: Frame) -> str:
        return self.classes[max(range(len(self.classes)), key=frame.probabilities.__getitem__)]

    def _is_right(self, frame: Frame) -> bool:
        return frame.probabilities[self.specimen.label] == max(frame.probabilities)

    def _judgment(self, frame: Frame) -> Html:
        is_right = self._is_right(frame)
        return tag(
            "p",
            tag("span", "✓ right" if is_right else "✗ wrong", class_="mark"),
            ": the model says ",
            tag("b", self._says(frame), class_="says"),
            class_="answer right" if is_right else "answer wrong",
        )


def _picture(png: bytes, caption: Child, alt: str, kind: str = "clean") -> Html:
    image = tag("img", src=_source(png), alt=alt, class_=kind)
    return tag("figure", image, tag("figcaption", caption))


def _bar(name: str, share: float, is_true: bool) -> Html:
    mark: Child = tag("span", " (true)", class_="small") if is_true else None
    number = tag("span", percent(share), class_="share")
    return tag("li", tag("span", join(name, mark), class_="class"), bar(share), number)
