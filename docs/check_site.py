"""Check that the built site asks no other host for scripts, styles, fonts or images: ``python docs/check_site.py site``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'>\s]+""")
_LINKED = re.compile(r"""<link\b(?![^>]*\brel=["']?(?:canonical|next|prev))[^>]*\bhref=["']?(?:https?:)?//[^"'>\s]+""")
_STYLED = re.compile(r"""(?:@import\s+|url\()["']?(?:https?:)?//[^"')\s]+""")


def requests(site: Path) -> list[str]:
    """What pages and styles fetch from other hosts, with the file that does so."""
    looked_at = {path: (_LOADED, _LINKED, _STYLED) for path in site.rglob("*.html")}
    looked_at |= {path: (_STYLED,) for path in site.rglob("*.css")}
    return [
        f"{path}: {found}"
        for path, patterns in sorted(looked_at.items())
        for pattern in patterns
        for found in pattern.findall(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    if external := requests(Path(sys.argv[1])):
        sys.exit("the site asks other hosts:\n" + "\n".join(external))
