"""The notebooks run, what they show came from a run, and it holds nothing of the machine it was made on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from soar.data import Dataset, loading
from tests.docs.notebooks import NOTEBOOKS, as_file, executed
from tests.docs.running import ROOT


def name(path: Path) -> str:
    return path.stem


def outputs(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Every form of every output, by its type."""
    found = []
    for cell in notebook["cells"]:
        for one in cell.get("outputs", []):
            found.append(one["data"] if "data" in one else {one["name"]: one["text"]})
    return found


def words(notebook: dict[str, Any]) -> list[str]:
    """What the notebook shows as text, without its numbers and without the room that they take."""
    shown = ["".join(one.get("text/html", one.get("text/plain", ""))) for one in outputs(notebook)]
    return [re.sub(r"[\s\d.─+-]+", " ", text) for text in shown]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_every_cell_runs_and_shows_what_is_saved(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = loading.load

    def load_few(*words: Any, **options: Any) -> Dataset:
        data = load(*words, **options)
        return replace(data, train=data.train.first(1280), test=data.test.first(30))

    monkeypatch.setattr(loading, "load", load_few)
    monkeypatch.chdir(tmp_path)
    saved, again = json.loads(path.read_text()), executed(path)
    assert [one.keys() for one in outputs(again)] == [one.keys() for one in outputs(saved)]
    assert len(outputs(again)) >= 3
    tables = [one for one in outputs(again) if "text/html" in one]
    headings = ["attack", "threat", "verdict"]
    assert tables and all(any(word in "".join(one["text/html"]) for word in headings) for one in tables)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_what_is_saved_came_from_a_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert words(executed(path)) == words(json.loads(path.read_text())), "python -m tests.docs.notebooks"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_files_are_small_whole_and_free_of_machine_noise(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert text == as_file(notebook) and len(text) < 40_000
    assert notebook["nbformat"] == 4 and notebook["metadata"].keys() == {"kernelspec", "language_info"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]{1,64}", one) for one in ids)
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "from one run, top to bottom"
    shown = json.dumps([{k: v for k, v in one.items() if k != "image/png"} for one in outputs(notebook)])
    assert not re.search(r"/(?:home|root|tmp|work|Users)/|0x[0-9a-f]{6}|seconds|Warning|Error", shown)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_links_lead_somewhere_and_the_page_of_examples_leads_here(path: Path) -> None:
    notebook = json.loads(path.read_text())
    prose = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", prose)
    assert links and all((path.parent / link).is_file() for link in links)
    assert f"](../examples/{path.name})" in (ROOT / "docs" / "examples.md").read_text()


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "id": "broken", "source": ["x = 1\n", "x / 0"], "outputs": []}]
    (tmp_path / "wrong.ipynb").write_text(json.dumps({"cells": cells}))
    with pytest.raises(ZeroDivisionError) as caught:
        executed(tmp_path / "wrong.ipynb")
    assert str(caught.traceback[-1].path).endswith("wrong.ipynb:broken")


def test_outputs_are_those_that_jupyter_shows(tmp_path: Path) -> None:
    sources = [["print('a')\n", "1 + 1"], ["x = 3"], ["None"], ["object()"]]
    cells = [{"cell_type": "code", "id": str(at), "source": one} for at, one in enumerate(sources)]
    (tmp_path / "few.ipynb").write_text(json.dumps({"cells": cells}))
    first, second, third, last = executed(tmp_path / "few.ipynb")["cells"]
    assert first["outputs"][0] == {"name": "stdout", "output_type": "stream", "text": ["a\n"]}
    assert first["outputs"][1]["data"] == {"text/plain": ["2"]}
    assert second["outputs"] == third["outputs"] == [] and last["execution_count"] == 4
    assert last["outputs"][0]["data"] == {"text/plain": ["<object object>"]}
