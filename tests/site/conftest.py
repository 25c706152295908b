"""A browser for each file of tests, and axe-core, which looks for what shuts people out of a page."""

import shutil
import subprocess

import pytest
from browser import Browser

from course.paths import ROOT

AXE = ROOT / "build" / "axe-core-4.14.1" / "package" / "axe.min.js"


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
