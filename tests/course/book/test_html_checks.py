"""What the book's own check says of built pages: each fault by its page."""

import pytest

from course.book.html_checks import complaints

FINE = """<!doctype html><html><head><link rel="stylesheet" href="a.css"><script src="a.js"></script></head><body>
<h1 id="top">A page</h1><a href="#top">up</a> <a href="b.html#there">on</a> <a href="https://example.org">out</a>
<img src="data:image/png;base64,AAAA" alt="a line that rises"></body></html>"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.html").write_text(FINE, encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="there">here</p>', encoding="utf-8")
    for name in ("a.css", "a.js"):
        (tmp_path / name).write_text("", encoding="utf-8")
    return tmp_path


def test_pages_without_a_fault_have_none(site):
    assert complaints(site) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('alt="a line that rises"', "", "a.html: a picture has no alternative text: data:image/png"),
        ('alt="a line that rises"', 'alt=" "', "a.html: a picture has no alternative text"),
        ("b.html#there", "c.html", "a.html: leads to c.html, which is not there"),
        ("b.html#there", "b.html#gone", "a.html: leads to b.html#gone, and that page has no such place"),
        ('"#top"', '"#bottom"', "a.html: leads to #bottom, and that page has no such place"),
        (
            'src="a.js"',
            'src="https://cdn.example.org/a.js"',
            "a.html: loads https://cdn.example.org/a.js from elsewhere",
        ),
        ('src="a.js"', 'src="//cdn.example.org/a.js"', "a.html: loads //cdn.example.org/a.js from elsewhere"),
        ('href="a.css"', 'href="b.css"', "a.html: loads b.css, which is not there"),
        ("data:image/png;base64,AAAA", "b.png", "a.html: loads b.png, which is not there"),
    ],
)
def test_a_fault_is_named_with_its_page(site, old, new, complaint):
    page = site / "a.html"
    page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    (found,) = complaints(site)
    assert found.startswith(complaint)
