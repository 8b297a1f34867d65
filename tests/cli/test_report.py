from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from soar.cli.main import main
from tests.cli.tiny import TINY

FEW = ["--examples", "12", "--threads", "1", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report")
    words = ["train", "demo-robust", *TINY, "--max_steps", "40", "--output", str(path / "first")]
    assert main(words) == 0
    shutil.copytree(path / "first", path / "second")
    return path


def test_one_run_gets_a_page_in_its_folder_and_tables_beside_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(folder / "first"), *FEW]) == 0
    page = (folder / "first" / "report.html").read_text()
    assert page.startswith("<!doctype html>") and "first" in page
    assert "worst case" in (folder / "first" / "report.md").read_text()
    assert r"\begin{tabular}" in (folder / "first" / "report.tex").read_text()
    shown = capsys.readouterr().out
    assert shown.count("saved ") == 3
    assert (folder / "first" / "assessment.json").exists(), "what was missing is computed and kept"


def test_several_runs_share_a_page_which_may_be_written_again(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report", str(folder / "first"), str(folder / "second"), "-o", str(tmp_path / "both.html"), *FEW]
    assert main(words) == 0
    before = (tmp_path / "both.html").read_text()
    assert "second" in before
    assert main(words) == 0
    assert (tmp_path / "both.html").read_text() == before, "the same results give the same page"


def test_nothing_but_a_report_is_replaced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("thesis.html", "thesis.md"):
        (tmp_path / name).write_text("years of work")
        assert main(["report", str(folder / "first"), "-o", str(tmp_path / "thesis.html"), *FEW]) == 2
        assert "exists and is not a report of soar; choose another name" in capsys.readouterr().err
        assert (tmp_path / name).read_text() == "years of work"
        (tmp_path / name).unlink()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: not a run folder"),
        (["first", "first"], "is given twice, expected different runs"),
        (["first", "-o", "page.pdf"], "--output: got page.pdf, expected a name that ends in .html"),
        (["first", "--examples", "0"], "--examples: got 0, expected at least 1"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
