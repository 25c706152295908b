"""The pages of the web book in a browser: no console error, nothing from the net, no sideways scroll, axe-core."""

import pytest
from browser import program, serious_faults

from course.paths import ROOT

SITE = ROOT / "site"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
WIDE, NARROW = 1400, 400  # pixels
VIEWS = pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (WIDE, True), (NARROW, False)])
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here"),
    pytest.mark.skipif(not PAGES, reason="there is no site/ here: make book"),
    pytest.mark.parametrize("page", PAGES),
]


def test_a_page_opens_without_a_complaint_and_asks_the_net_for_nothing(browser, page):
    browser.open(SITE / page)
    assert browser.problems == []


def test_a_narrow_page_does_not_scroll_sideways(browser, page):
    browser.open(SITE / page, width=NARROW)
    assert browser.run("document.documentElement.scrollWidth") <= NARROW


@VIEWS
def test_axe_finds_no_serious_fault(browser, axe, page, width, dark):
    browser.open(SITE / page, width=width, dark=dark)
    assert serious_faults(browser, axe) == []
