"""INSTRUCTORS.md says what is so: its calendar is the registry's, its commands are the tool's."""

import re

import pytest
from typer.main import get_command

from course.cli import app
from course.paths import ROOT, read
from course.registry import questions, registry

GUIDE = read(ROOT / "INSTRUCTORS.md")


def calendar():
    """Return the rows of the guide's table as it has to be: six numbers a week, and the sums."""
    weeks = sorted({exercise.week for exercise in registry()})
    rows = {str(week): [*figures(registry(), week), *figures(questions(), week)] for week in weeks}
    return rows | {"all": [sum(column) for column in zip(*rows.values(), strict=True)]}


def figures(tasks, week):
    mine = [task for task in tasks if task.week == week]
    return [len(mine), sum(task.points for task in mine), sum(task.minutes for task in mine)]


def test_the_calendar_has_the_points_and_minutes_of_every_week():
    rows = re.findall(r"(?m)^\| (\d+|all) \| (.*) \|$", GUIDE)
    assert {week: [int(cell) for cell in cells.split(" | ")] for week, cells in rows} == calendar()


def test_the_longest_weeks_are_those_that_the_guide_names():
    named = re.search(r"Weeks (\d+) and (\d+) are the longest", GUIDE)
    minutes = {week: row[2] + row[5] for week, row in calendar().items() if week != "all"}
    assert named and set(named.groups()) == set(sorted(minutes, key=minutes.__getitem__)[-2:])


@pytest.mark.parametrize("page", ["INSTRUCTORS.md", "README.md"])
def test_every_command_that_a_page_types_exists(page):
    typed = set(re.findall(r"(?m)(?:^|`)course ([a-z][a-z-]+)", read(ROOT / page)))
    assert typed and typed <= set(get_command(app).commands), typed - set(get_command(app).commands)


def test_every_file_that_the_guide_leads_to_is_there():
    for name in re.findall(r"\]\(([\w./]+)\)|`((?:tests|solutions|notebooks)/[\w/]*/)`", GUIDE):
        assert (ROOT / (name[0] or name[1])).exists(), name
