"""What Sphinx and the theme leave out for readers who use a screen reader, put into the built pages."""

import re
from pathlib import Path

_MENDED = (
    # A heading of the menu has a level.
    (re.compile(r'(<p class="caption" role="heading")>'), r'\1 aria-level="2">'),
    # What is folded is called what it says.
    (re.compile(r'<summary aria-label="[^"]*">'), "<summary>"),
)


def mended(text: str) -> str:
    """Return a page's HTML with these put in; a page that has them already stays as it is."""
    for pattern, new in _MENDED:
        text = pattern.sub(new, text)
    return text


def mend(site: Path) -> None:
    """Mend every page under a folder."""
    for path in sorted(site.rglob("*.html")):
        path.write_text(mended(path.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
