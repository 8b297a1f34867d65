"""A browser, and the pages that it opens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from soar.report.page import page
from tests.report.made import bare, certified, hostile, made_content

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser; a test is skipped where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    wanted = [os.environ.get("SOAR_BROWSER"), *map(shutil.which, NAMES)]
    executable = next((path for path in wanted if path), None)
    if executable is None:
        pytest.skip(
            f"no browser is installed: none of {', '.join(NAMES)} is on the path, SOAR_BROWSER is not set"
        )
    with sync_api.sync_playwright() as playwright:
        # Everything runs as root in a container, where the sandbox cannot start; the page is our own.
        started = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages that are opened."""
    made = tmp_path_factory.mktemp("pages")
    one, two = made_content(2)
    for name, runs in {
        "one": [one],
        "two": [one, two],
        "five": [*made_content(5)],
        "bare": [bare(two), one],
        "certified": [certified(one), two],
        "hostile": [hostile(one), hostile(two)],
    }.items():
        (made / f"{name}.html").write_text(page(runs), encoding="utf-8")
    return made
