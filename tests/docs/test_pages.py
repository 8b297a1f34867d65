"""Every command and every snippet of every page runs, and every file that a page shows or links is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soar.errors import UserError
from tests.docs.running import FENCE, ROOT, blocks, commands, run_page

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
RUNNABLE = [
    page for page in PAGES if any(one.language in ("bash", "python") for one in blocks(page.read_text()))
]
LANGUAGES = {"bash", "python", "text", "toml", "json", ""}
# Made when the site is built, from the parser and from the fields of a recipe.
MADE = {DOCS / "reference" / "cli.md", DOCS / "reference" / "recipe-fields.md"}


def name(page: Path) -> str:
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_everything_on_the_page_runs(page: Path, small_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_of_a_kind_that_is_tried_or_only_read(page: Path) -> None:
    for block in blocks(page.read_text()):
        where = f"line {block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of {block.language}"
        is_code = block.language in ("bash", "python")
        assert not is_code or "..." not in block.text, f"{where}: code with something left out"


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as the site makes them."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        if ":" not in link:
            path = (page.parent / link).resolve() if link else page
            assert path.exists() or path in MADE, link
            assert not anchor or anchor in anchors(path.read_text()), f"{link}#{anchor}"


@pytest.mark.parametrize(
    "block, mistake",
    [
        ("```python\n1 / 0\n```\n", ZeroDivisionError),
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", AssertionError),
        ("```bash\nsoar list modls\n```\n", UserError),
        ("```bash\nsoar evaluate nowhere\n```\n", AssertionError),
        ("```bash\nsoar train demo-robust --epoch 1 --cluster\n```\n", UserError),
        ("```bash\npython examples/never_written.py\n```\n", AssertionError),
        ("```bash\ncurl example.org\n```\n", AssertionError),
    ],
)
def test_a_page_that_does_not_run_is_found(
    block: str, mistake: type[BaseException], small_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = small_world / "wrong.md"
    page.write_text(f"# Wrong\n\n{block}")
    with pytest.raises(mistake):
        run_page(page, monkeypatch)


def test_blocks_are_found_with_their_titles_and_lines() -> None:
    text = 'a\n\n```python title="b.py"\nx = 1\n```\n\n- c\n\n'
    text += "    ```bash\n    soar list \\\n      models  # all\n    ```\n"
    first, second = blocks(text)
    assert (first.language, first.title, first.text, first.line) == ("python", "b.py", "x = 1\n", 4)
    assert second.line == 10
    assert commands(second.text) == [["soar", "list", "models"]]
