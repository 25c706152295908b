"""course reset: one exercise as it was at first, in the notebook, in exercises/, or both."""

from difflib import get_close_matches
from pathlib import Path

from ..building.stubs import stub_files
from ..errors import CourseError
from ..paths import ROOT, read
from ..registry import Exercise, Question, find, questions, registry
from ..text.answers import cut, functions, is_stub, replaced
from ..text.cells import by_key, is_answered, recognise
from ..text.files import load, parsed, text_of, to_text
from .layout import Work
from .plan import Plan
from .tracks import EDITOR, NOTEBOOK


def reset(name: str, track: str | None = None, folder: Path | None = None, root: Path = ROOT) -> list[str]:
    """Take one answer out, after a backup; return what was done, in lines.

    Args:
        name: an exercise or a question in words, by number or name.
        track: "notebook" or "editor"; None for both.
        folder: the student's folder; `work/` if none is named.

    Raises:
        CourseError: no such exercise or track, or a file that cannot be read or written. Every file is then as it was.
    """
    if track not in (None, NOTEBOOK, EDITOR):
        raise CourseError(f"--track is {track!r}; it is {NOTEBOOK} or {EDITOR}")
    plan, task = Plan(Work.at(folder, root)), _task(name, root)
    if track != EDITOR:
        _in_notebook(plan, task)
    if track != NOTEBOOK and isinstance(task, Exercise):
        _in_editor(plan, task)
    if not plan.changes.new:
        where = f" in the {track}" if track else ""
        return [f"{task.number} {task.name} is not written{where}; nothing to reset", *plan.look]
    is_open = plan.changes_notebooks
    reload = ["in JupyterLab, a notebook that is open: File, Reload Notebook from Disk"] if is_open else []
    return [*plan.apply(), *reload]


def _task(name: str, root: Path) -> Exercise | Question:
    in_words = {key: question for question in questions(root) for key in (question.number, question.name)}
    if name in in_words:
        return in_words[name]
    try:
        return find(name, registry(root))
    except CourseError as error:
        near = [] if "did you mean" in str(error) else get_close_matches(name, in_words, n=3)
        raise CourseError(
            f"there is no exercise {name!r}; did you mean {' or '.join(near)}?" if near else error
        ) from None


def _in_notebook(plan: Plan, task: Exercise | Question) -> None:
    for lesson, source in plan.work.lessons.items():
        path = plan.work.folder / lesson
        if source.suffix != ".ipynb" or not path.is_file():
            continue
        cells = by_key(parsed(read(source))["cells"])
        if task.slug not in cells:
            continue
        try:
            notebook = load(path)
        except CourseError as error:
            raise CourseError(f"{plan.work.shown(path)} {error}") from None
        for key, cell in recognise(notebook["cells"], [cells]):
            if key == task.slug and is_answered(cell, cells[task.slug]):
                cell["source"] = cells[task.slug]["source"]
                if cell.get("cell_type") == "code":
                    cell |= {"outputs": [], "execution_count": None}
                plan.changes.write(path, to_text(notebook))
                plan.done.append(f"{task.number} {task.name} is as it was at first in {plan.work.shown(path)}")


def _in_editor(plan: Plan, exercise: Exercise) -> None:
    path = plan.work.root / "exercises" / exercise.file
    if not path.is_file():
        return
    fresh, text = stub_files(plan.work.root)[exercise.file], text_of(path)
    try:
        written = functions(text, plan.work.shown(path))
    except CourseError as error:
        raise CourseError(f"{error}: mend that line first, so that only this exercise is taken out") from None
    new, asked = text, functions(fresh)
    for target in exercise.targets:
        if target in written and not is_stub(written[target]):
            new = replaced(new, target, cut(fresh, asked[target]).lines)
        elif target not in written:
            plan.look.append(f"{plan.work.shown(path)} has no {target} any more; course build --force gives it back")
    if new != text:
        plan.changes.write(path, new)
        plan.done.append(f"{exercise.number} {exercise.name} is as it was at first in {plan.work.shown(path)}")
