"""What a failed check says: of two numbers it is told which is the answer's and which the right one."""

import re

import pytest

from course.paths import ROOT, read
from course.registry import registry

GRADING = sorted({test for exercise in registry() for test in exercise.tests})
# "8, not 7": which of them is mine? "got 8, expected 7" says so.
_EITHER = re.compile(r"""^[^"']*f["'][^"']*\}, not \{(expected|right|scale|bytes_by_hand)\b.*$""", re.MULTILINE)


@pytest.mark.parametrize("test", GRADING)
def test_a_message_says_which_number_is_got_and_which_expected(test):
    assert not [found.group().strip() for found in _EITHER.finditer(read(ROOT / test))]


def test_a_message_that_leaves_it_open_is_found():
    assert _EITHER.search('    assert a == b, f"{a}, not {expected}"\n')
    assert not _EITHER.search('    assert a == b, f"got {a}, expected {expected}"\n')
