"""course start: copies of the notebooks for a student to answer."""

from pathlib import Path

from ..errors import CourseError
from ..folder import MATERIAL, lay_out
from ..paths import HOME, ROOT, laid_out, read
from ..text.files import Changes
from .layout import Work


def start(folder: Path | None = None, root: Path = ROOT) -> list[str]:
    """Copy what is missing of notebooks/ into a folder, `work/` if none is named; return what was done, in lines.

    A file that is there is never touched.

    Raises:
        CourseError: the folder is a file, one of the course's own, or cannot be written to.
    """
    work = Work.at(folder, root)
    missing = [lesson for lesson in work.lessons if not (work.folder / lesson).exists()]
    changes = Changes()
    copy(work, missing, changes)
    changes.apply()
    return [*_said(work, missing), *_news(work)]


def start_installed(folder: Path | None = None, version: str = "", archive: Path = HOME / MATERIAL) -> list[str]:
    """Lay out a folder of an installed course, the one here if none is named, and copy its notebooks to its work/.

    Returns:
        What was done, in lines. A file that is there is never touched.

    Raises:
        CourseError: no folder is named and none is here, or as `lay_out` and `start` do.
    """
    folder = folder or laid_out(Path.cwd())
    if folder is None:
        raise CourseError("name a folder for the course: course start FOLDER")
    written = lay_out(folder, version, archive)
    said = [f"laid out {folder.as_posix()}: notebooks, exercises, tests"] if written else []
    return [*said, *start(None, folder.resolve())]


def copy(work: Work, lessons: list[str], changes: Changes) -> None:
    """Plan copies of lessons, and the note of their versions."""
    originals = {}
    for lesson in lessons:
        source = work.lessons[lesson]
        changes.copy(source, work.folder / lesson)
        # Somebody may have answered in notebooks/ itself: that copy has answers in it, and is no version of the lesson.
        if lesson.endswith(".ipynb") and work.is_released(lesson, read(source)):
            originals[lesson] = read(source)
    for path, text in work.noted(originals).items():
        changes.write(path, text)


def _said(work: Work, copied: list[str]) -> list[str]:
    place = work.shown(work.folder)
    if not copied:
        return [f"{place}/ has every notebook already; nothing was copied, nothing changed"]
    answered = [lesson for lesson in copied if lesson.endswith(".ipynb") and not _is_original(work, lesson)]
    number = "1 file" if len(copied) == 1 else f"{len(copied)} files"
    lines = [f"copied {number} of notebooks/ to {place}/, yours to answer; start with {place}/start.ipynb"]
    return [*lines, *(f"notebooks/{lesson} had been edited there: the edits are in your copy" for lesson in answered)]


def _is_original(work: Work, lesson: str) -> bool:
    return work.original(lesson) == read(work.folder / lesson)


def _news(work: Work) -> list[str]:
    """Which copies come from an older version of their lesson."""
    note = work.note()
    older = [
        lesson
        for lesson, source in work.lessons.items()
        if lesson in note and work.original(lesson) != read(source) and work.is_released(lesson, read(source))
    ]
    names = ", ".join(Path(lesson).stem for lesson in older)
    return [f"corrected since your copies were made: {names}; course update brings it in"] if older else []
