"""The page on which an engine is watched: one HTML frame and one JavaScript module, on a server or in one file."""

from functools import cache
from html import escape
from pathlib import Path

from .recording import Recording

_HERE = Path(__file__).parent
_SERVED = '<main data-nanolm-watch></main>\n<script type="module" src="/watch.js"></script>'
# Nothing from elsewhere, no frame around it; the module sets its own styles.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def module_text() -> str:
    """Return the JavaScript module, which is a page's and a widget's alike."""
    return (_HERE / "watch.js").read_text(encoding="utf-8")


@cache
def served_page() -> str:
    """Return the page that `nanolm serve` has at /."""
    return (_HERE / "index.html").read_text(encoding="utf-8")


def page_of(recording: Recording) -> str:
    """Return a page that shows a recording and needs nothing besides: it opens from a file."""
    page = served_page().replace("<title>NanoLM, watched</title>", f"<title>{escape(recording.title)}</title>")
    return page.replace(_SERVED, f"<main>{embedded(recording)}</main>")


def embedded(recording: Recording) -> str:
    """Return the elements that show a recording inside some other page; any number of them may stand in one."""
    # In a script only its end tag means something, and a browser reads `<!--` as the beginning of a comment.
    run = recording.text().replace("<", "\\u003c")
    assert "</script" not in module_text()
    return (
        "<div data-nanolm-watch></div>\n"
        f'<script type="application/json" data-nanolm-run>{run}</script>\n'
        f'<script type="module">{module_text()}</script>'
    )
