"""Hand-ins and the board: what is handed in is served again, and claims count for nothing."""

import json
import shutil
from dataclasses import replace

import pytest
from answers import solve
from capstones import EASY, MACHINE, at, served, work_here, write_load
from rich.console import Console
from typer.testing import CliRunner

from course.capstone import run
from course.capstone.check import Check
from course.capstone.run import capstone
from course.capstone.settings import Choices
from course.capstone.verdict import Verdict
from course.cli import app
from course.errors import CourseError
from course.leaderboard import board
from course.leaderboard.board import Entry, leaderboard, rank
from course.leaderboard.hand_in import HandIn, write_hand_in
from course.paths import read, write

FILTERS = "sampling/filters.py"


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    return write_load(tmp_path_factory.mktemp("board"), n=4)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(run, "work", work_here)
    monkeypatch.setattr(board, "work", work_here)


@pytest.fixture(scope="module")
def answers(untouched, tmp_path_factory):
    folder = tmp_path_factory.mktemp("anna") / "answers"
    shutil.copytree(untouched, folder)
    solve(folder, FILTERS)
    return folder


@pytest.fixture(scope="module")
def first_handed_in(load, answers):
    """A hand-in of a student who wrote the filters, and chose four slots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "work", work_here)
        verdict = capstone(str(answers), at(load), Choices(slots=4), rounds=1)
    write_hand_in(answers.parent / "anna.json", str(answers), Choices(slots=4), verdict)
    return answers.parent / "anna.json"


@pytest.fixture
def handed_in(first_handed_in, tmp_path):
    """The same in a folder of its own, for others to lie beside it."""
    write(tmp_path / "in/anna.json", read(first_handed_in))
    return tmp_path / "in/anna.json"


def test_a_hand_in_holds_what_a_replay_needs_and_what_it_claims(handed_in, answers, load):
    values = json.loads(read(handed_in))
    assert values["choices"]["slots"] == 4 and values["load"]["trace"] == load.trace
    assert values["answers"] == {FILTERS: read(answers / FILTERS)}, "the files with answers, and no other"
    assert len(values["texts"]) == 4 and len(set(values["texts"])) == 4
    assert {"machine", "goals", "score", "parts", "seeds"} <= set(values)
    assert HandIn.read(handed_in).choices == Choices(slots=4)


def test_nothing_written_cannot_be_handed_in(load, untouched, tmp_path):
    verdict = capstone(str(untouched), at(load), Choices(), rounds=1)
    with pytest.raises(CourseError, match="nothing to hand in"):
        write_hand_in(tmp_path / "in.json", str(untouched), Choices(), verdict)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "its format is 2"),
        ({"answers": {"../../elsewhere.py": ""}}, "'../../elsewhere.py', which holds no exercise"),
        ({"choices": {"slots": 4}}, "the choices must give"),
        ({"texts": None}, "is no hand-in"),
    ],
)
def test_a_file_that_is_no_hand_in_is_refused(handed_in, change, complaint):
    write(handed_in, json.dumps(json.loads(read(handed_in)) | change))
    with pytest.raises(CourseError) as error:
        HandIn.read(handed_in)
    assert complaint in str(error.value)


def test_the_board_serves_again_and_believes_no_claim(handed_in, load, capsys):
    values = json.loads(read(handed_in))
    wrong = values["answers"][FILTERS].replace("probs.scatter(-1, order[..., k:], 0.0)", "probs.flip(-1)")
    others = {
        "bert": {"score": [0.0], "texts": ["0"] * 4},
        "carl": {"answers": {FILTERS: wrong}},
        "dora": {"answers": {FILTERS: "def temperature_probs(:"}},
    }
    for name, change in others.items():
        write(handed_in.with_name(f"{name}.json"), json.dumps(values | change))
    write(handed_in.with_name("emil.json"), "no JSON")
    entries = leaderboard(sorted(handed_in.parent.glob("*.json")), at(load), rounds=1)
    by_name = {entry.name: entry for entry in entries}
    assert {entry.name for entry in entries if entry.scores} == {"anna", "bert"}
    assert min(by_name["bert"].scores) > 0 and by_name["bert"].remark == "4 texts are not those handed in"
    assert by_name["anna"].remark == ""
    board.show(entries, Console(width=200))
    printed = capsys.readouterr().out
    assert "carl: no place:" in printed and "even alone" in printed
    assert "dora: no place:" in printed and "emil: no place: emil.json is no hand-in" in printed


def test_on_another_load_claimed_texts_say_nothing(handed_in, load):
    (entry,) = leaderboard([handed_in], at(replace(load, top_k=40)), rounds=1)
    assert entry.scores and entry.remark == ""


def test_those_who_cannot_be_told_apart_share_a_place(load):
    def entry(name, *seconds):
        part = {"number": "6.4", "part": "x", "whose": "yours", "why": "", "calls": {"alone": 1}}
        check = Check({"alone": (1, 1)}, [part], [], [], 0)
        done = [served(each) for each in seconds]
        return Entry(name, Choices(), Verdict(at(load, EASY, MACHINE), check, done, [served()] * len(done)))

    entries = [entry("a", 1.0, 1.2), entry("b", 1.1, 1.3), entry("c", 1.4, 1.5)]
    assert [rank(each, entries) for each in entries] == [1, 1, 3]


def test_the_command_needs_hand_ins_and_prints_the_board(handed_in, load, tmp_path):
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["leaderboard", str(tmp_path / "empty")])
    assert "holds no .json files" in str(result.exception)
    options = ["--model", load.model, "--trace", load.trace, "--rounds", "1", "--rate", "0", "--tpot-ms", "1e6"]
    result = CliRunner().invoke(app, ["leaderboard", str(handed_in.parent), *options], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "anna" in result.stdout and "--slots 4" in result.stdout
