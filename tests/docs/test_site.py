"""The site builds strictly and without a network, asks nobody for anything, and reads well in a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from soar.cli.main import COMMANDS
from soar.objectives import OBJECTIVES
from soar.recipes.overrides import all_fields
from tests.docs.running import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("mkdocs", reason='the site is not built: pip install "soar-robust[docs]"')

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What a page shows or runs without being asked; a link that is clicked is another matter.
FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
MADE = {"reference/cli.md", "reference/recipe-fields.md"}
# A build that asked the network for anything would fail.
NOWHERE = "http://127.0.0.1:9"
OFFLINE = {"http_proxy": NOWHERE, "https_proxy": NOWHERE, "NO_MKDOCS_2_WARNING": "1"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | OFFLINE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    wanted = [os.environ.get("SOAR_BROWSER"), *map(shutil.which, BROWSERS)]
    executable = next((path for path in wanted if path), None)
    if executable is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)} is on the path")
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield opened
        opened.close()


class Fetches(HTMLParser):
    """Collects the addresses that a page loads by itself, and all its text."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(FETCHED.get(tag, ""))
        if address and not (tag == "link" and given.get("rel") == "canonical"):
            self.addresses.append(address)


def test_every_page_of_the_navigation_exists() -> None:
    _, nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")
    named = set(re.findall(r"[\w/-]+\.md", nav))
    assert len(named) > 30
    assert [name for name in sorted(named - MADE) if not (ROOT / "docs" / name).is_file()] == []


def test_no_page_asks_a_server_for_anything(site: Path) -> None:
    found = sorted(site.rglob("*.html"))
    assert len(found) > 30
    for page in found:
        reader = Fetches()
        reader.feed(page.read_text(encoding="utf-8"))
        outside = [one for one in reader.addresses if re.match(r"(?:\w+:)?//", one)]
        assert outside == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_pages_made_from_the_code_name_every_command_field_and_objective(site: Path) -> None:
    commands = (site / "reference" / "cli.html").read_text()
    assert all(f'id="soar-{name}"' in commands for name in COMMANDS)
    assert "--attacks" in commands and "apgd-t" in commands
    fields = (site / "reference" / "recipe-fields.html").read_text()
    for field in all_fields():
        _, _, name = field.rpartition(".")
        assert f"<code>{name}</code>" in fields, field
    assert all(f">{entry.name}<" in fields for entry in OBJECTIVES)


def test_the_api_pages_show_what_is_public(site: Path) -> None:
    from soar import attacks, data, evaluation, models, objectives

    registries = {"ATTACKS", "DATASETS", "MODELS", "OBJECTIVES", "STATISTICS"}
    for package in (attacks, data, evaluation, models, objectives):
        name = package.__name__.rpartition(".")[2]
        page = (site / "reference" / "api" / f"{name}.html").read_text()
        shown = set(re.findall(rf'id="soar\.{name}\.(?:\w+\.)*(\w+)"', page))
        assert set(package.__all__) - shown <= registries, name


def test_files_outside_docs_that_pages_link_to_are_copied(site: Path) -> None:
    assert (site / "repository" / "benchmarks" / "results" / "step.txt").is_file()
    assert "repository/benchmarks/results/step.txt" in (site / "results" / "index.html").read_text()
    listing = (site / "results" / "masking-cifar10" / "index.html").read_text()
    assert "pgd-10" in listing


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_opens_from_disk_and_its_search_finds(
    site: Path, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    shown = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", lambda request: requests.append(request.url))
    shown.goto((site / "guides" / "is-it-masked.html").as_uri())
    assert shown.locator("h1").inner_text().startswith("Is it masked?")
    ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(int(one) for one in re.findall(r"\d+", ground)[:3])
    assert (bright > 600) == (scheme == "light"), ground
    shown.locator("[data-md-component=search-query]").click()
    shown.locator("[data-md-component=search-query]").press_sequentially("temperature")
    shown.wait_for_selector(".md-search-result__link", timeout=20_000)
    folder = Path(os.environ.get("SOAR_ARTIFACTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    shown.screenshot(path=folder / f"site-{scheme}.png")
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
    context.close()


@pytest.mark.parametrize("page", ["index", "start", "reference/comparison", "reference/recipe-fields"])
def test_nothing_overflows_on_a_phone(site: Path, browser: Browser, page: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    shown = context.new_page()
    shown.goto((site / f"{page}.html").as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
