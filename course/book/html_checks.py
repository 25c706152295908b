"""What is wrong with the built pages: a link that leads nowhere, a picture without words, anything from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The links, pictures and places of one page.

    Attributes:
        links: where it leads.
        places: the ids that a link can name.
        loads: what a browser fetches to show it.
        unworded: pictures without alternative text.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.places = list[str](), set[str]()
        self.loads, self.unworded = list[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found.get("href", ""))
        if _LOADED.get(tag, "") in found:
            self.loads.append(found[_LOADED[tag]])
        if tag == "img" and not found.get("alt", "").strip() and found.get("role") != "presentation":
            self.unworded.append(found.get("src", "")[:60])


def complaints(site: Path) -> list[str]:
    """Return a line for each fault of the pages under a folder; empty where there is none."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    return [line for path, page in pages.items() for line in _faults(path, page, pages, site)]


def _faults(path: Path, page: Page, pages: dict[Path, Page], site: Path) -> list[str]:
    name = path.relative_to(site).as_posix()
    found = [f"{name}: a picture has no alternative text: {source}" for source in page.unworded]
    for address in page.loads:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") or parts.netloc:
            found.append(f"{name}: loads {address} from elsewhere")
        elif parts.scheme != "data" and not (path.parent / unquote(parts.path)).is_file():
            found.append(f"{name}: loads {address}, which is not there")
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            found.append(f"{name}: leads to {address}, which is not there")
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
            found.append(f"{name}: leads to {address}, and that page has no such place")
    return found
