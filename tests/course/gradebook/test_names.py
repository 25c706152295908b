"""Names where not every letter may stand."""

import pytest

from course.gradebook.names import cell, identity, text_of


@pytest.mark.parametrize("name", ["ana", "Ana, María", "O'Neil", "李雷", "a.b-c"])
def test_a_name_that_every_system_takes_stays_itself(name):
    assert identity(name) == name


@pytest.mark.parametrize("name", ["=cmd|x", "../../etc", "a/b", "con", "CON.txt", ".", "", "x\ny", "a:b", "ä" * 200])
def test_any_other_becomes_a_safe_one(name):
    made = identity(name)
    assert made != name and not set(made) & set('/\\:*?"<>|+\n') and made not in ("", ".", "..")
    assert len(made.encode()) <= 140


def test_two_names_never_become_one():
    names = ["a/b", "a|b", "a_b", "a:b", "=cmd|x", "=cmd/x"]
    assert len({identity(name) for name in names}) == len(names)


@pytest.mark.parametrize("text", ["=1+1", "+49", "-x", "@SUM", "\tx", "\r=1", "plain", "'quoted", "'=x", ""])
def test_no_cell_starts_a_formula_and_each_comes_back(text):
    assert cell(text)[:1] not in tuple("=+-@\t\r") or not text
    assert text_of(cell(text)) == text or text == "'=x"
