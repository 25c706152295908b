"""The table of parameters in `nanolm/serving/README.md`: a row for every parameter, and a test for every row."""

import ast
import json
import re

import pytest

from course.paths import ROOT, read
from nanolm.openai_api import NOT_DONE, WITHOUT_EFFECT, ChatBody, CompletionBody

TEXT = read(ROOT / "nanolm" / "serving" / "README.md")
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for line in TEXT.partition("## Parameters")[2].splitlines()
    if line.startswith("| `")
    for cells in [line.strip("|").split("|")]
}
OWN = {*CompletionBody.model_fields, *ChatBody.model_fields}
REFUSED = {*NOT_DONE, *CompletionBody.not_done, *ChatBody.not_done} - OWN


def test_there_is_a_row_for_every_parameter_and_none_for_what_is_none():
    assert set(ROWS) == OWN | REFUSED | WITHOUT_EFFECT
    assert len(ROWS) == TEXT.partition("## Parameters")[2].count("\n| `"), "a row twice"


def test_a_row_says_of_each_whether_it_is_done():
    for name, (here, *_) in ROWS.items():
        assert here.startswith("refused") == (name in REFUSED), name
        assert (here == "taken, changes nothing") == (name in WITHOUT_EFFECT), name


@pytest.mark.parametrize("name", sorted(REFUSED & set(NOT_DONE)))
def test_a_refused_parameter_s_row_has_the_values_that_ask_for_nothing(name):
    assert re.findall(r"`([^`]*)`", ROWS[name][0]) == [json.dumps(value) for value in NOT_DONE[name]]


def test_every_row_names_a_test_that_is_there():
    found = {}
    for name, (*_, test) in ROWS.items():
        file, _, function = test.strip("`").partition("::")
        if file not in found:
            tree = ast.parse(read(ROOT / "tests" / file))
            found[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert function in found[file], f"the row of {name} names {test}, and there is none"


def test_the_rows_stand_beside_two_other_servers():
    assert all(len(row) == 4 and row[1] and row[2] for row in ROWS.values())
