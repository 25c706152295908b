"""Every exercise in the audit: enough wrong answers, enough right ones, no sentence that nothing tests.

One wrong and one right answer of each are graded here; all of them by `course audit`, and in `make nightly`.
"""

import pytest

from course.audit.audit import MISTAKES, STYLES, Row, cases
from course.audit.cases import mistakes, mistakes_in, right_file, right_in
from course.audit.run import audit_mistake, audit_right
from course.audit.sentences import stale, table, uncovered
from course.paths import ROOT
from course.registry import registry

SEED = 1  # not 0, the reference's own: a student's answer meets new inputs, and no failure of its is made smaller
each = pytest.mark.parametrize("exercise", registry(), ids=lambda exercise: exercise.name)


@each
def test_an_exercise_has_its_wrong_and_its_right_answers_and_a_mistake_for_each_sentence(exercise):
    wrong, right = mistakes_in(exercise), right_in(exercise)
    assert len(wrong) >= MISTAKES, f"{len(wrong)} planted mistakes, at least {MISTAKES} are asked"
    assert len(right) >= STYLES, f"{len(right)} right answers in other styles, at least {STYLES} are asked"
    names = {mistake.name for mistake in wrong}
    assert stale(exercise, names) == []
    assert uncovered(exercise, names) == []


@each
def test_a_wrong_answer_is_caught_by_name_and_a_right_one_in_another_style_accepted_after_it(exercise):
    wrong = audit_mistake(exercise, mistakes_in(exercise)[0], SEED)
    assert not wrong.is_fault, f"{wrong.name}: {wrong.said}"
    right = audit_right(exercise, right_in(exercise)[0], SEED)
    assert right.accepted, f"{right.name}: {right.said}"


@pytest.mark.slow
@each
def test_every_wrong_answer_is_caught_by_name_and_every_right_one_accepted_also_after_it(exercise):
    row = Row(exercise, [case.run() for case in cases(exercise, SEED + 1)])
    assert row.complaints() == []


def test_every_planted_mistake_has_a_name_of_its_own():
    names = [mistake.name for mistake in mistakes()]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


def test_every_file_of_right_answers_and_every_table_belongs_to_an_exercise():
    files = {right_file(exercise) for exercise in registry()}
    assert [path for path in (ROOT / "tests" / "right").rglob("*.py") if path not in files] == []
    assert set(table()) <= {exercise.name for exercise in registry()}


@each
def test_the_styles_of_an_exercise_have_names_of_their_own(exercise):
    names = [answer.name for answer in right_in(exercise)]
    assert len(set(names)) == len(names)
