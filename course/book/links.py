"""Where a link of the repository's texts leads in the book: to a page of it, to the repository, or nowhere."""

import os
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..building.front_doors import packages
from ..building.lesson import lessons
from ..errors import CourseError
from ..paths import ROOT

VARIABLE = "NANOLM_REPOSITORY"  # the repository's address; without it the book leads nowhere outside itself
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_PICTURE = re.compile(r"!\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "house.md",
    "INSTRUCTORS.md": "instructors.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "book/students.md": "students.md",
    "book/use.md": "use.md",
    "benchmarks/README.md": "benchmarks.md",
    "nanolm/shipped/README.md": "models.md",
    "notebooks/start.ipynb": "index.md",
    "notebooks/self_test.ipynb": "weeks/self_test.ipynb",
    "notebooks/glossary.ipynb": "glossary.md",
}


def repository() -> str:
    """Return the repository's address without a slash at its end, or nothing where NANOLM_REPOSITORY is not set.

    Raises:
        CourseError: it is no address.
    """
    address = os.environ.get(VARIABLE, "").rstrip("/")
    if address and not re.fullmatch(r"https://[\w.-]+(?:/[\w.-]+)+", address):
        raise CourseError(f"{VARIABLE} is {address!r}; it must be an address such as https://host/owner/nanolm")
    return address


@dataclass(frozen=True)
class Links:
    """Rewrites the links of a text.

    Attributes:
        pages: path in the repository to the file of the page made of it.
        address: the repository's, or nothing.
    """

    pages: dict[str, str]
    address: str

    @classmethod
    def of(cls, root: Path = ROOT) -> "Links":
        """Return the links of the book of a course."""
        pages = dict(_PAGES)
        for lesson in lessons(root / "solutions"):
            pages |= {lesson.notebook_in(top): f"weeks/{lesson.name}.ipynb" for top in ("notebooks", "solutions")}
        pages |= {f"nanolm/{room}": f"api/{room}.rst" for room in packages(root)}
        return cls(pages, repository())

    def rewritten(self, text: str, source: str, page: str) -> str:
        """Return Markdown whose links lead on from a page of the book.

        Args:
            source: the file of the repository that the text stands in, or would: what its links are relative to.
            page: the page's name, "weeks/week01_prefill_decode".

        Raises:
            CourseError: a link leads to no file of the repository, or a picture does not lie in book/.
        """

        def change(part: str) -> str:
            part = _PICTURE.sub(lambda found: _picture(found, source, page), part)
            return _LINK.sub(lambda found: self._link(found, source, page), part)

        return outside_code(text, change)

    def _link(self, found: re.Match[str], source: str, page: str) -> str:
        text, target = found["text"], found["target"]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, _, anchor = target.partition("#")
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        to = self.pages.get(whole) or self.pages.get("/".join(whole.split("/")[:2]))
        if to is not None:
            there = posixpath.relpath(to, posixpath.dirname(page) or ".")
            return f"[{text}]({there}{f'#{anchor}' if anchor else ''})"
        if not (ROOT / whole).exists():
            raise CourseError(f"{source} links to {target}, and there is no {whole}")
        return f"[{text}]({self.address}/blob/main/{whole})" if self.address else text


def _picture(found: re.Match[str], source: str, page: str) -> str:
    """A picture of the folder book, which the book takes along whole."""
    target = found["target"]
    if re.match(r"[a-z]+:", target):
        return found[0]
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if not whole.startswith("book/") or not (ROOT / whole).exists():
        raise CourseError(f"{source} shows {target}, and {whole} is no picture in book/")
    return f"![{found['text']}]({posixpath.relpath(whole.removeprefix('book/'), posixpath.dirname(page) or '.')})"


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return Markdown with a change made to all that is no code."""
    parts = re.split(r"(```.*?```|``[^\n]*?``|`[^`\n]*`)", text, flags=re.DOTALL)
    # A link's text may hold code: what lies between a bracket and its target stays in one piece.
    joined, held = list[str](), ""
    for part in parts:
        if part.startswith("`") and not _is_open(held):
            joined += [change(held), part]
            held = ""
        else:
            held += part
    return "".join([*joined, change(held)])


def _is_open(text: str) -> bool:
    """Whether a text ends inside the brackets of a link."""
    line = text.rpartition("\n\n")[2]
    return line.count("[") > line.count("]")
