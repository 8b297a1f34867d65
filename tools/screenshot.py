"""Take the picture of a report that README shows.

    soar demo --output runs/demo
    python tools/screenshot.py runs/demo/report.html docs/report.png

Needs Chromium and playwright (`make setup` installs the latter).
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def screenshot(page: Path, picture: Path, *, width: int, height: int) -> None:
    """Open a page from disk and keep its upper part as a picture."""
    browser = os.environ.get("SOAR_BROWSER") or next(filter(None, map(shutil.which, NAMES)))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser)
        tab = opened.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.screenshot(path=picture)
        opened.close()


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="Take the picture of a report.")
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--width", type=int, default=1180)
    parser.add_argument("--height", type=int, default=900)
    arguments = parser.parse_args()
    screenshot(arguments.page, arguments.picture, width=arguments.width, height=arguments.height)


if __name__ == "__main__":
    main()
