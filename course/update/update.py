"""course update: a new version of the course under a student's answers.

Everything is worked out in memory first; then old files are copied to a backup and the new ones written, all or none.
"""

from pathlib import Path

from ..building.stubs import stub_files
from ..paths import ROOT, read
from ..work.layout import Work
from ..work.plan import Plan
from .exercises import OldFile, PutBack, edited, leftovers, put_back, written_in
from .git import Conflict, Repository
from .lessons import update_lessons
from .old import Old, old_course


def update(folder: Path | None = None, old: Path | None = None, root: Path = ROOT) -> list[str]:
    """Bring the present lessons into a student's folder, put the answers of both tracks back, and say what was done.

    Args:
        folder: the student's folder; `work/` if none is named.
        old: take answers from here too: an older course's folder, or a backup. It is only read.

    Raises:
        CourseError: a folder cannot be used, a notebook is none or of another course, a file cannot be written. Every
            file is then as it was.
    """
    plan, repository = Plan(Work.at(folder, root)), Repository.of(root)
    source = Old() if old is None else old_course(old)
    conflicts = repository.conflicts() if repository else []
    update_lessons(plan, _lessons(plan, source, repository, conflicts), source.notebooks)
    _update_exercises(plan, source, repository, conflicts)
    nothing, is_open = not plan.changes.new, plan.changes_notebooks
    said = plan.apply()
    if repository and conflicts:
        said.append(repository.settle([conflict.path for conflict in conflicts]))
    if nothing:
        said.append("everything is up to date already; nothing was changed")
    elif is_open:
        said.append("in JupyterLab, a notebook that is open: File, Reload Notebook from Disk")
    return list(filter(None, said))


def _lessons(plan: Plan, source: Old, repository: Repository | None, conflicts: list[Conflict]) -> dict[str, str]:
    """The present notebooks. What a student has written into notebooks/ itself is one more place of answers."""
    prefix, found = "notebooks/", {}
    sides = {conflict.path: conflict for conflict in conflicts}
    for lesson, path in plan.work.lessons.items():
        if path.suffix != ".ipynb":
            continue
        conflict = sides.get(prefix + lesson)
        text = read(path) if conflict is None else conflict.course
        if conflict is not None and text is not None:
            source.notebooks.setdefault(lesson, (conflict.mine, conflict.base))
            plan.changes.write(path, text)
        elif not plan.work.is_released(lesson, text or ""):
            mine, text = text or "", repository.committed_or_none(prefix + lesson) if repository else None
            source.notebooks.setdefault(lesson, (mine, text))
        if text is None:
            plan.look.append(f"{path.name} was edited in notebooks/, so its lesson is not known; it is left as it is")
        else:
            found[lesson] = text
    return found


def _update_exercises(plan: Plan, source: Old, repository: Repository | None, conflicts: list[Conflict]) -> None:
    root, prefix = plan.work.root, "exercises/"
    if not (root / prefix).is_dir():
        return
    fresh = stub_files(root)
    texts = written_in(root, fresh)
    unmerged = [conflict for conflict in conflicts if conflict.path.startswith(prefix)]
    files = [OldFile(conflict.path.removeprefix(prefix), conflict.mine, conflict.base) for conflict in unmerged]
    stale = files if repository else [*files, *edited(root, fresh)]
    old = leftovers(root, fresh)
    present = texts | {file.path: fresh[file.path] for file in stale if file.path in fresh}
    done = put_back([*stale, *old, *source.exercises], fresh, present, root)
    plan.plain |= {root / prefix / path for path, text in texts.items() if text == fresh[path]}
    for path, text in done.texts.items():
        plan.changes.write(root / prefix / path, text)
    for conflict in unmerged:  # the file on disk has git's marks in it; what the student wrote is what counts
        plan.changes.write(plan.work.backup / conflict.path, conflict.mine)
    for file in [*files, *old]:
        if file.path not in done.texts:
            plan.changes.remove(root / prefix / file.path)
    _tell(plan, done)


def _tell(plan: Plan, done: PutBack) -> None:
    plan.done += done.said
    plan.look += done.look
    for kept in done.kept:
        plan.keep(f"exercises/{kept.path}", kept.text, kept.why)
