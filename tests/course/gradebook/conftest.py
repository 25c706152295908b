"""A class and an empty gradebook, made once: nbgrader takes seconds to make one."""

import shutil

import pytest
from submissions import WEEK4, cell_of, put, right, untouched, with_body, without

from course.gradebook.book import Book

WORDS = "proof-of-exactness"


@pytest.fixture(scope="session")
def empty_gradebook(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    with Book(folder, 4) as book:
        book.register()
    return folder / "gradebook.db"


@pytest.fixture
def grading(tmp_path, empty_gradebook):
    """The folder of private things, with a gradebook in which nobody is."""
    folder = tmp_path / "grading"
    folder.mkdir()
    shutil.copy(empty_gradebook, folder / "gradebook.db")
    return folder


@pytest.fixture
def classroom(tmp_path):
    """Submissions: right, nothing written, a function wrong, one deleted, one that is not Python, words."""
    top = tmp_path / "submitted"
    put(top / "right" / WEEK4, right())
    put(top / "untouched" / WEEK4, untouched())
    put(top / "=cmd_x" / WEEK4, with_body(right(), "best_gamma", "return 'wrong'"))
    broken = without(right(), "best_gamma")
    cell_of(broken, "acceptance_rate")["source"] = "def acceptance_rate(p, q):\n    return p +"
    put(top / "Ana, María" / WEEK4, broken)
    return top
