"""What mkdocs calls while it builds the site: pages made from the code, and links that leave docs/."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import command_page
import formulas
import outside
import recipe_page

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

MADE = {"reference/cli.md": command_page.text, "reference/recipe-fields.md": recipe_page.text}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here, and every file outside docs/ that a page links to."""
    from mkdocs.structure.files import File

    for name, make in MADE.items():
        files.append(File.generated(config, name, content=make()))
    for name, path in outside.linked(_root(config)).items():
        if path.is_dir():
            files.append(File.generated(config, name, content=outside.listing(path)))
        else:
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/, or that name a folder, at their copy in the site."""
    del files
    stored = page.file.abs_src_path
    if stored is None:
        return markdown
    return outside.rewritten(markdown, Path(stored), _root(config))


def on_page_content(html: str, **_: object) -> str:
    """Set formulas."""
    return formulas.as_mathml(html)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.docs_dir).parent
