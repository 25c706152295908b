"""The pages of the web book in a browser: no console error, nothing from the net, no sideways scroll, axe-core."""

import shutil
import subprocess

import pytest
from browser import Browser, program

from course.paths import ROOT

SITE = ROOT / "site"
AXE = ROOT / "build" / "axe-core-4.14.1" / "package" / "axe.min.js"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
WIDE, NARROW = 1400, 400  # pixels
VIEWS = pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (WIDE, True), (NARROW, False)])
SERIOUS = """axe.run({preload: false, resultTypes: ["violations"]}).then(found => found.violations
    .filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.help}: ${each.nodes[0].html.slice(0, 120)}`))"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(program() is None, reason="there is no Chromium here"),
    pytest.mark.skipif(not PAGES, reason="there is no site/ here: make book"),
    pytest.mark.parametrize("page", PAGES),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core, fetched once from npm."""
    if not AXE.is_file():
        if shutil.which("npm") is None:
            pytest.skip("axe-core comes from npm, which is not here")
        folder = AXE.parents[1]
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", "axe-core@4.14.1"], cwd=folder, check=True, timeout=300)
        shutil.unpack_archive(folder / "axe-core-4.14.1.tgz", folder)
    return AXE.read_text(encoding="utf-8")


def test_a_page_opens_without_a_complaint_and_asks_the_net_for_nothing(browser, page):
    browser.open(SITE / page)
    assert browser.problems == []


def test_a_narrow_page_does_not_scroll_sideways(browser, page):
    browser.open(SITE / page, width=NARROW)
    assert browser.run("document.documentElement.scrollWidth") <= NARROW


@VIEWS
def test_axe_finds_no_serious_fault(browser, axe, page, width, dark):
    browser.open(SITE / page, width=width, dark=dark)
    browser.run(f"{axe}; 0")
    assert browser.run(SERIOUS) == []
