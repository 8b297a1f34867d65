from __future__ import annotations

from pathlib import Path

import pytest

from soar.report.cache import ReportCache
from soar.report.sections.gallery import Frame, GalleryImage

IMAGE = GalleryImage(
    index=3,
    label=1,
    magnified=2.5,
    frames=(Frame(eps="8/255", image=b"\x89PNG\x00", perturbation=b"", probabilities=(0.25, 0.75)),),
)


def cache(folder: Path, fingerprint: str = "a", lines: list[str] | None = None) -> ReportCache:
    return ReportCache(folder, fingerprint, say=([] if lines is None else lines).append)


def test_what_was_kept_comes_back_as_it_was_and_is_not_computed_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> tuple[GalleryImage, ...]:
        calls.append(1)
        return (IMAGE,)

    for _ in range(2):
        assert cache(tmp_path).get("gallery", tuple[GalleryImage, ...], compute) == (IMAGE,)
    assert len(calls) == 1


def test_other_weights_and_other_settings_are_computed_again(tmp_path: Path) -> None:
    lines: list[str] = []
    made = iter(range(5))
    for fingerprint, about, found in (
        ("a", "x", 0),
        ("a", "x", 0),
        ("b", "x", 1),
        ("b", "y", 2),
        ("a", "x", 3),
    ):
        assert cache(tmp_path, fingerprint, lines).get("one", int, made.__next__, about=about) == found
    assert lines == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"eps"', '"epz"'),
        lambda text: "{}",
    ],
)
def test_a_damaged_file_is_told_in_one_line_and_made_again(tmp_path: Path, damage: object) -> None:
    lines: list[str] = []
    kept = cache(tmp_path, lines=lines)
    kept.get("gallery", tuple[GalleryImage, ...], lambda: (IMAGE,))
    file = tmp_path / "gallery.json"
    before = file.read_text()
    file.write_text(damage(before))  # type: ignore[operator]
    assert file.read_text() != before
    assert kept.get("gallery", tuple[GalleryImage, ...], lambda: (IMAGE,)) == (IMAGE,)
    assert len(lines) == 1 and "\n" not in lines[0] and lines[0].endswith("it is made again")
    assert str(file) in lines[0]
    assert file.read_text() == before


def test_content_of_another_kind_is_not_trusted(tmp_path: Path) -> None:
    lines: list[str] = []
    assert cache(tmp_path).get("one", tuple[str, ...], lambda: ("text",)) == ("text",)
    assert cache(tmp_path, lines=lines).get("one", tuple[int, ...], lambda: (5,)) == (5,)
    assert len(lines) == 1 and "one.json" in lines[0]


def test_where_nothing_can_be_kept_the_measurement_is_still_returned(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file where the folder should be")
    lines: list[str] = []
    kept = cache(tmp_path / "report", lines=lines)
    assert kept.get("one", int, lambda: 5) == 5
    assert len(lines) == 1 and "it is made again for the next report" in lines[0]
