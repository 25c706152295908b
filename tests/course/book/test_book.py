"""course book: what it replaces, and what it never does."""

import pytest

from course.book.book import require_replaceable
from course.errors import CourseError
from course.paths import ROOT


def test_a_book_built_before_an_empty_folder_and_a_new_one_are_replaced(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "site" / "objects.inv").write_text("", encoding="utf-8")
    for name in ("site", "empty", "new"):
        require_replaceable(tmp_path / name)


@pytest.mark.parametrize("place", [ROOT, ROOT / "book", ROOT / "README.md"], ids=lambda place: place.name)
def test_a_folder_or_file_of_anything_else_is_refused_and_left(place):
    with pytest.raises(CourseError, match="holds something else than a book, and would be replaced"):
        require_replaceable(place)
    assert place.exists()
