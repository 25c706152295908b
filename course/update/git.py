"""The little of git that an update needs: what is edited, what is new upstream, what a merge could not join."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError

BUILT = ("exercises", "notebooks")  # built files that a student may have edited, and git tracks


@dataclass(frozen=True)
class Conflict:
    """A file that git could not merge: the student's text, the text both sides began with, and the course's."""

    path: str
    mine: str
    base: str | None
    course: str | None


@dataclass(frozen=True)
class Repository:
    """The course's folder as a git clone."""

    root: Path

    @classmethod
    def of(cls, root: Path) -> "Repository | None":
        """Return the clone whose top folder this is; None if it is none, or there is no git."""
        try:
            top = Repository(root).run("rev-parse", "--show-toplevel").strip()
        except (CourseError, OSError):
            return None
        return Repository(root) if Path(top).resolve() == root.resolve() else None

    def run(self, *arguments: str) -> str:
        """Return what a git command prints; raise CourseError with git's words if it fails."""
        command = ["git", "-C", str(self.root), *arguments]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
            raise CourseError(f"git {' '.join(arguments[:2])} failed: {said}")
        return done.stdout.decode("utf-8", "replace")

    def edited(self) -> set[str]:
        """Return the built files that differ from the last commit."""
        return _paths(self.run("diff", "--name-only", "-z", "HEAD", "--", *BUILT))

    def fetch(self) -> set[str]:
        """Fetch what is new upstream; return the files that it changes, none if nothing is new.

        Raises:
            CourseError: a merge is under way, no upstream, no network, or commits of the student's own.
        """
        if self._is_merging() or self.conflicts():
            raise CourseError("a merge is under way: course update (without --pull) sorts out exercises/; then commit")
        self.run("fetch", "--quiet")
        if self.run("rev-list", "--count", "HEAD..@{upstream}").strip() == "0":
            return set()
        if self.run("rev-list", "--count", "@{upstream}..HEAD").strip() != "0":
            raise CourseError(
                "there are commits of your own, so --pull would have to merge: run git pull, "
                "then course update, which sorts out what git could not join in exercises/"
            )
        return _paths(self.run("diff", "--name-only", "-z", "--no-renames", "HEAD", "@{upstream}"))

    def restore(self, paths: list[str]) -> None:
        """Give files the text of the last commit."""
        if paths:
            self.run("checkout", "--quiet", "HEAD", "--", *paths)

    def forward(self) -> None:
        """Move on to what was fetched; raise CourseError if git refuses."""
        self.run("merge", "--ff-only", "--quiet", "@{upstream}")

    def committed(self, path: str) -> str:
        """Return a file's text in the last commit."""
        return self.run("show", f"HEAD:{path}").replace("\r\n", "\n")

    def committed_or_none(self, path: str) -> str | None:
        """Return a file's text in the last commit; None where it is not in it."""
        try:
            return self.committed(path)
        except CourseError:
            return None

    def conflicts(self) -> list[Conflict]:
        """Return the built files that git has left half merged, after a pull or a stash."""
        listed = [line for line in self.run("ls-files", "-u", "-z", "--", *BUILT).split("\0") if line]
        stages: dict[str, set[str]] = {}
        for line in listed:
            head, path = line.split("\t")
            stages.setdefault(path, set()).add(head.split()[2])
        # In a merge the student's side is the branch, 2; where a stash or a commit is put on top, it is what is put on.
        mine, course = ("2", "3") if self._is_merging() else ("3", "2")
        found = []
        for path, there in stages.items():
            texts = {s: self.run("show", f":{s}:{path}").replace("\r\n", "\n") if s in there else None for s in "123"}
            own = texts[mine]
            found += [] if own is None else [Conflict(path, own, texts["1"], texts[course])]
        return found

    def settle(self, paths: list[str]) -> str:
        """Tell git that conflicts in these files are resolved by what is on disk; return what is left to do."""
        rebasing = any(self._has(name) for name in ("rebase-merge", "rebase-apply"))
        for path in paths:
            self.run(*(("add", "-A") if rebasing or self._is_merging() else ("reset", "--quiet")), "--", path)
        if rebasing:
            return "git's conflicts in these files are resolved; git rebase --continue goes on"
        return "git's conflicts in these files are resolved; git commit ends the merge" if self._is_merging() else ""

    def _is_merging(self) -> bool:
        return self._has("MERGE_HEAD")

    def _has(self, name: str) -> bool:
        return (self.root / self.run("rev-parse", "--git-path", name).strip()).exists()


def _paths(listed: str) -> set[str]:
    return {path for path in listed.split("\0") if path}
