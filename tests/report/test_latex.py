"""Tables as LaTeX: read as text, and set by the real program where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from soar.report.tables import PACKAGES, latex, latex_table
from tests.report.made import hostile, made_content


def set_by_latex(folder: Path, text: str) -> str:
    """Give what pdflatex says to a document of this text; it must not stop at an error."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here: apt-get install texlive-latex-recommended")
    lines = [r"\documentclass{article}", *PACKAGES, r"\begin{document}", text, r"\end{document}"]
    (folder / "page.tex").write_text("\n".join(lines))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def test_it_is_a_table_of_booktabs() -> None:
    text = latex(made_content(2))
    assert text.startswith("% soar report ") and all(package in text.splitlines()[0] for package in PACKAGES)
    for command in (r"\begin{table}", r"\toprule", r"\midrule", r"\bottomrule", r"\end{table}", r"\caption{"):
        assert text.count(command) == 2
    assert r"\begin{tabular}{lrrrr}" in text
    assert (
        r"pgd-10 (best) & 83.6\% {\small(81.2 to 85.8)} & 66.1\% {\small(63.1 to 69.0)} & sound & - \\"
        in text
    )


def test_hostile_names_stay_text() -> None:
    text = latex([hostile(run) for run in made_content(2)])
    body = text.split("\n", 1)[1].replace("$-$", "-").replace("{!}{%", "{!}{")
    plain = re.sub(r"\\(textbackslash|text[a-z]+)\{\}|\\[{}$&#%_]", "", body)
    without_fitting = re.sub(r"\\ifdim.*?\\fi", "", plain)
    assert not re.search(r"[$#%_^~<>|\"]", without_fitting)
    rows = [line for line in plain.splitlines() if line.endswith(r"\\")]
    assert {row.count(" & ") for row in rows} == {4, 2}
    assert plain.count("{") == plain.count("}")


def test_only_numbers_are_set_as_numbers() -> None:
    text = latex_table("t", [["run", "a -1 - 2"], ["b -1 - 2", "-1.0 (-2.0 to 0.5)"]])
    assert r"run & a -1 - 2 \\" in text and r"b -1 - 2 & $-$1.0 {\small($-$2.0 to 0.5)} \\" in text


def test_the_real_program_sets_it_inside_of_the_page(tmp_path: Path) -> None:
    wide = [
        ["attack", *(f"a rather long name {k}" for k in range(5))],
        ["PGD-20", *["66.1% (63.1 to 69.0)"] * 5],
    ]
    said = set_by_latex(tmp_path, latex(made_content(3)) + latex_table("wide", wide))
    assert "Overfull" not in said and "Output written on page.pdf" in said


def test_the_real_program_takes_hostile_names(tmp_path: Path) -> None:
    said = set_by_latex(tmp_path, latex([hostile(run) for run in made_content(2)]))
    assert "Output written on page.pdf" in said
