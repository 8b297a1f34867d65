from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from soar.attacks import FGSM
from soar.data import Split
from soar.report.exhibits.eps_curve import Breaks, measure, threats
from soar.report.exhibits.gallery import choose, gallery
from soar.report.exhibits.subject import Subject
from soar.threat import L2, Linf, Threat
from tests.attacks.problems import TinyNet, said
from tests.report.linear import away, linear_subject, pixels, split_of


# Signs reach the corner of a cube exactly; on a sphere each step leaves 4/5 of the error, a few % in the end.
@pytest.mark.parametrize("threat, slack", [(Linf("0.05"), 0.0), (L2("0.12"), 0.05)])
def test_frames_of_a_linear_model_show_the_worst_points(threat: Threat, slack: float) -> None:
    subject = linear_subject(threat)
    shown = gallery(subject, measure(subject, [FGSM()]))
    assert len(shown) == 6
    for specimen in shown:
        row = specimen.index - 100
        w, x = away(subject, row), subject.x[row]
        assert [frame.eps for frame in specimen.frames][:5] == ["0", *_sizes(threat)[:4]]
        largest = threat.ascent(w[None])[0].abs().max() * threats(threat)[-1].radius
        assert specimen.magnified == pytest.approx(127 / 255 / float(largest), rel=1e-5 + slack)
        for frame, radius in zip(
            specimen.frames, [0.0, *(one.radius for one in threats(threat))], strict=True
        ):
            delta = -radius * threat.ascent(w[None])[0]
            _near(pixels(frame.image), 255 * (x + delta)[0], slack * 255 * radius)
            _near(pixels(frame.perturbation), (128 + 255 * specimen.magnified * delta)[0], 128 * slack)
            logits = subject.ask((x + delta)[None])
            assert frame.probabilities == pytest.approx(
                logits.softmax(dim=1)[0].tolist(), abs=2e-5 + slack / 10
            )


def test_the_clean_frame_is_the_image_to_the_last_bit() -> None:
    subject = linear_subject()
    for specimen in gallery(subject, measure(subject, [FGSM()])):
        row = specimen.index - 100
        first = specimen.frames[0]
        assert torch.equal(pixels(first.image), subject.split.images[row, 0].long())
        assert bool((pixels(first.perturbation) == 128).all())
        assert specimen.label == int(subject.split.labels[row])


def test_a_larger_radius_never_shows_a_weaker_point() -> None:
    """On a rough network a search within a larger ball may well end worse; with two classes p_y tells."""
    split, model = split_of(12), TinyNet(classes=2)
    labels = said(model, split.images.double() / 255)
    subject = Subject(model=model, split=Split(split.images, labels, split.indices), threat=Linf("0.4"))
    shown = gallery(subject, measure(subject, [FGSM()]))
    assert shown
    for specimen in shown:
        shares = [frame.probabilities[specimen.label] for frame in specimen.frames]
        assert shares == sorted(shares, reverse=True)


def test_without_a_right_answer_there_is_no_gallery() -> None:
    subject = linear_subject(count=3, wrong=3)
    assert gallery(subject, Breaks(radii=9, tried={}, at={"FGSM": (0, 0, 0)})) == ()


@given(st.lists(st.integers(0, 9), max_size=40))
def test_fragile_and_sturdy_examples_are_both_chosen(first: list[int]) -> None:
    labels = [row % 3 for row in range(len(first))]
    chosen = choose(first, labels)
    right = [at for at in first if at > 0]
    assert len(chosen) == len(set(chosen)) == min(6, len(right))
    assert all(first[row] > 0 for row in chosen)
    assert [first[row] for row in chosen] == sorted(first[row] for row in chosen)
    if right:
        assert first[chosen[0]] == min(right)
    if len(right) > 1:
        assert first[chosen[-1]] == max(right)


def test_classes_not_shown_yet_come_first() -> None:
    assert choose([1] * 6, [0, 0, 0, 1, 1, 2], count=3) == [0, 3, 5]


def _sizes(threat: Threat) -> list[str]:
    return [str(one).split()[1] for one in threats(threat)]


def _near(shown: torch.Tensor, expected: torch.Tensor, slack: float) -> None:
    """Equal, but for rounding to a gray level and what the attack leaves."""
    assert bool(((shown - expected).abs() <= 0.5 + 1e-3 + slack).all())
