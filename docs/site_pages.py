"""A hook of mkdocs: the site also has pages from the root folder, and texts that only the site shows.

In the repository, links lead from file to file: from CHANGELOG.md to docs/sail.md, and from docs/index.md to ../DESIGN.md.
In the site, all pages are in one folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "DESIGN.md")
"""Pages of the site that are in the root folder."""

_LINK = re.compile(r"\[([^][]+)\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")
_SITE_ONLY = re.compile(r"^<!-- only in the site\n(.*?)^-->$", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root folder."""
    from mkdocs.structure.files import File  # not needed by tests

    for name in ROOT_PAGES:
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page's text for the site."""
    return in_site(markdown, ROOT if page.file.src_uri in ROOT_PAGES else DOCS)


def in_site(text: str, folder: Path) -> str:
    """Return the text of a page in `folder` for the site, which has all pages in one folder.

    A link to a file that is not in the site, such as setup.cfg, becomes plain text.
    """
    return _LINK.sub(lambda link: _link_in_site(link, folder), _SITE_ONLY.sub(r"\1", text))


def _link_in_site(link: re.Match[str], folder: Path) -> str:
    text, target, fragment = link[1], link[2], link[3] or ""
    path = Path(os.path.normpath(folder / target))
    if path.parent == DOCS or path in [ROOT / name for name in ROOT_PAGES]:
        return f"[{text}]({path.name}{fragment})"
    return text if path.exists() else link[0]
