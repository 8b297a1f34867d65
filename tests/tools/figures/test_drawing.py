from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.figures.command import show

from soar.errors import UserError
from soar.theory import Rows
from tools.figures import drawing


@pytest.mark.parametrize("name", ["a.jpg", "a"])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(
        UserError, match=r"--figure: got 'a.*expected a name that ends in \.svg, \.png, \.pdf"
    ):
        drawing.check(Path(name))


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--figure: got .*but there is no folder '.*nowhere'"):
        drawing.check(tmp_path / "nowhere" / "a.svg")


def test_missing_matplotlib_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r'which is not installed: pip install "\.\[docs\]"'):
        drawing.check(tmp_path / "a.svg")


@pytest.mark.parametrize("suffix, begin", [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_the_name_says_the_format_and_the_same_figure_gives_the_same_file(
    suffix: str, begin: bytes, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        with drawing.drawing(file) as figure:
            figure.add_subplot().plot([1, 2], [1, 2], "o-")
    first, second = (file.read_bytes() for file in files)
    assert first == second and first.startswith(begin)


def test_an_svg_has_other_colors_on_a_dark_page(tmp_path: Path) -> None:
    with drawing.drawing(tmp_path / "a.svg") as figure:
        figure.add_subplot(title="words").plot([1, 2], color=drawing.BLUE)
    text = (tmp_path / "a.svg").read_text()
    used = set(re.findall(r'style="[^"]*(?:fill|stroke): (#[0-9a-f]{6})', text))
    assert used >= {"#ffffff", drawing.BLUE.lower()}
    for color in used:
        assert f'[style*="stroke: {color}"]' in text


def test_tables_need_no_matplotlib() -> None:
    code = "import sys, tools.theory.__main__, tools.figures.__main__; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_columns_of_words_are_flush_left_and_numbers_flush_right() -> None:
    rows: Rows = [{"fit": "ridge", "loss": 0.123456, "d": 7}, {"fit": None, "loss": None, "d": 1234}]
    assert show(rows) == "fit      loss     d\nridge  0.1235     7\n               1234"
