"""course update --pull: `git pull` over answers in files that git tracks.

Git refuses to move on where it would overwrite an edited file. So the edited ones among those that are new upstream go
to a backup and are given back their committed text; git moves on; and the new version of this very command, in a
process of its own, puts the answers back.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import CourseError
from ..paths import ROOT
from ..text.files import Changes, put
from ..work.layout import Work
from .git import Repository
from .lessons import require_copies
from .old import ORIGINALS
from .update import update


def in_new_process(work: Work, saved: Path | None) -> list[str]:
    """Run the updated course's own `course update`, which prints what it does; raise CourseError if it fails."""
    options = [] if saved is None else ["--from", str(saved)]
    command = [sys.executable, "-m", "course", "update", str(work.folder.resolve()), *options]
    if subprocess.run(command, cwd=work.root, check=False).returncode:
        again = f"course update --from {work.shown(saved)}" if saved else "course update"
        raise CourseError(
            f"the course is new, your answers are safe and not put back yet; when that is mended: {again}"
        )
    return []


def pull(
    folder: Path | None = None, root: Path = ROOT, go_on: Callable[[Work, Path | None], list[str]] = in_new_process
) -> list[str]:
    """Fetch the course's new version, move on to it, and update a student's folder; return what was done, in lines.

    Args:
        folder: the student's folder; `work/` if none is named.
        go_on: puts the answers back, given the student's folder and the backup that they are in.

    Raises:
        CourseError: this is no git clone, git cannot go on, or a notebook is none. Every file is then as it was.
    """
    work, repository = Work.at(folder, root), Repository.of(root)
    if repository is None:
        raise CourseError(
            f"{root} is no git clone: unpack the new version beside it, and run there: "
            f"course update --from {root.as_posix()}"
        )
    require_copies(work)
    new = repository.fetch()
    if not new:
        return ["nothing new upstream", *update(folder, root=root)]
    touched = sorted(repository.edited() & new)
    edited = {path: (root / path).read_bytes() for path in touched if (root / path).is_file()}
    backup = Changes()
    for path in edited:
        backup.copy(root / path, work.backup / path)
        backup.write(work.backup / ORIGINALS / path, repository.committed(path))
    backup.apply()
    _move_on(repository, touched, edited)
    said = go_on(work, work.backup if edited else None)
    saved = [f"what you had written in {', '.join(edited)}: {work.shown(work.backup)}/"] if edited else []
    return [*said, *saved]


def _move_on(repository: Repository, touched: list[str], edited: dict[str, bytes]) -> None:
    try:
        repository.restore(touched)
        repository.forward()
    except CourseError as error:
        for path, content in edited.items():
            put(repository.root / path, content)
        raise CourseError(f"{error}\nevery file is as it was") from None
