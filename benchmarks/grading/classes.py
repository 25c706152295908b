"""A class of made-up students, the same for the same seed, in a realistic mix.

Of a hundred students 7 hand in the notebook as it was, 45 answer everything, the others stop somewhere. One written
answer in eight is wrong in a way that people are wrong in, one student in twenty has an accident in it (an endless
loop, an end of the program, a table that no memory holds). Three in ten notebooks have been through something: another
name, copied cells, lost metadata, Windows.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from random import Random

import typer

from course.paths import ROOT, read
from course.registry import Exercise, questions, registry
from course.text.cells import grade_id

from .answers import ACCIDENTS, accident, right, wrong
from .forms import FORMS

# The options that the three commands have in common.
WEEK = typer.Option(help="The week.")
SEED = typer.Option(help="Of the class.")

UNTOUCHED, COMPLETE, ACCIDENT, WRONG, CHANGED = 0.07, 0.45, 0.05, 1 / 8, 0.3
_FIRST = ("Ana", "Bo", "Chen", "Dilnoza", "Emre", "Fatou", "Grace", "Hiroshi", "Inés", "Jan", "Kofi", "Lea", "Māra")
_LAST = ("Abe", "Bauer", "Çelik", "Díaz", "Evans", "Færøy", "García", "Haddad", "Ito", "Jansen", "Kim", "López", "Ngô")
_SAID = "Each token is kept with the probability that makes the sum right, so the distribution is the target's."


@dataclass(frozen=True)
class Student:
    """One made-up student of a week.

    Attributes:
        answers: by an exercise's cell, its text; what is not in it was not written.
        ways: by an exercise's cell, "right", "wrong" or the accident.
        form: of the files, one of FORMS.
    """

    name: str
    week: int
    answers: dict[str, str]
    ways: dict[str, str]
    form: str

    @property
    def plain_name(self) -> bool:
        """Whether the files have the names that nbgrader looks for."""
        return FORMS[self.form].name == "{stem}.ipynb"


def students(week: int, n: int, seed: int = 1) -> list[Student]:
    """Return a class of n."""
    draw = Random(f"{week} {seed}")
    exercises = [exercise for exercise in registry() if exercise.week == week]
    return [_student(_name(i), week, exercises, draw) for i in range(n)]


def _name(i: int) -> str:
    first, last = _FIRST[i % len(_FIRST)], _LAST[(i // len(_FIRST) + i) % len(_LAST)]
    return f"{first} {last} {i:03}"


def _student(name: str, week: int, exercises: list[Exercise], draw: Random) -> Student:
    kind = draw.random()
    share = 0.0 if kind < UNTOUCHED else 1.0 if kind < UNTOUCHED + COMPLETE else draw.uniform(0.1, 0.95)
    written = exercises[: round(share * len(exercises))]
    ways = {exercise.slug: "wrong" if draw.random() < WRONG else "right" for exercise in written}
    if written and draw.random() < ACCIDENT:
        ways[draw.choice(written).slug] = draw.choice(ACCIDENTS)
    makers = {"right": right, "wrong": wrong}
    answers = {
        each.slug: makers[way](each, draw) if (way := ways[each.slug]) in makers else accident(each, way)
        for each in written
    }
    # No two students write the same, so that no answer is graded for two.
    answers = {slug: re.sub(r"(?m)^( +)(?=return\b)", rf"\1# {name}\n\1", text) for slug, text in answers.items()}
    form = draw.choice(list(FORMS)[1:]) if written and draw.random() < CHANGED else "as it came"
    return Student(name, week, answers, ways, form)


def hand_in(student: Student, folder: Path, seed: int = 1) -> None:
    """Write a student's notebooks of a week where nbgrader keeps them: FOLDER/STUDENT/week04_speculative/…ipynb."""
    draw = Random(f"{student.name} {seed}")
    for path, notebook in _notebooks(student):
        form = FORMS[student.form]
        file = folder / student.name / path.parent.name / form.name.format(stem=path.stem)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(form.bytes_of(notebook, draw))


def _notebooks(student: Student) -> Iterator[tuple[PurePosixPath, dict]]:
    asked = {question.slug for question in questions() if question.week == student.week}
    for lesson in dict.fromkeys(exercise.notebook for exercise in registry() if exercise.week == student.week):
        notebook = json.loads(read(ROOT / lesson))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
            name = grade_id(cell)
            if name in student.answers:
                cell["source"] = student.answers[name]
            elif name in asked and student.answers:
                cell["source"] = _SAID
        yield PurePosixPath(lesson), notebook
