"""Links that work in the repository and shall work in the site: to files outside docs/ and to folders."""

from __future__ import annotations

import os
import re
from pathlib import Path

LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
COPIES = "repository"


def place(path: Path, root: Path) -> str:
    """Return where in the site a file or a folder of the repository is found.

    Args:
        path: something inside `root`
        root: the repository
    """
    docs = root / "docs"
    if not path.is_dir():
        return str(path.relative_to(docs) if path.is_relative_to(docs) else COPIES / path.relative_to(root))
    inside = path.relative_to(docs) if path.is_relative_to(docs) else COPIES / path.relative_to(root)
    return f"{inside}/index.md"


def linked(root: Path) -> dict[str, Path]:
    """Find what pages link to that mkdocs would not copy by itself, with its place in the site.

    Pages outside docs/ become part of the site when they are linked, and so do the files they link to.
    """
    found: dict[str, Path] = {}
    waiting = sorted((root / "docs").rglob("*.md"))
    while waiting:
        page = waiting.pop()
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            path = _target(match[2], page, root)
            if path is None or place(path, root) in found:
                continue
            found[place(path, root)] = path
            if path.suffix == ".md":
                waiting.append(path)
    return found


def listing(folder: Path) -> str:
    """Make a page of links to the files of a folder."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    return "\n".join([f"# {folder.name}", "", *(f"- [{name}]({name})" for name in names), ""])


def rewritten(markdown: str, page: Path, root: Path) -> str:
    """Return a page with its links to outside files and to folders changed to their places in the site."""
    here = Path(place(page, root)).parent

    def change(match: re.Match[str]) -> str:
        # A page that lies outside docs/ itself has moved, and so all its links do.
        path = _target(match[2], page, root) or _moved(match[2], page, root)
        if path is None:
            return match[0]
        return match[1] + os.path.relpath(place(path, root), here) + match[3]

    return LINK.sub(change, markdown)


def _target(link: str, page: Path, root: Path) -> Path | None:
    """Return the file or folder that a link leads to, if mkdocs would not find it."""
    path = _path(link, page)
    if path is None or not path.is_relative_to(root) or path == root:
        return None
    is_inside = path.is_relative_to(root / "docs")
    return path if path.is_dir() or not is_inside else None


def _moved(link: str, page: Path, root: Path) -> Path | None:
    return None if page.is_relative_to(root / "docs") else _path(link, page)


def _path(link: str, page: Path) -> Path | None:
    if ":" in link:
        return None
    path = (page.parent / link).resolve()
    return path if path.exists() else None
