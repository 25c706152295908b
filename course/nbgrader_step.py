"""nbgrader's first step over a submission: accidents with cells must not stop a class, nor earn points."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor


class MendSubmission(NbGraderPreprocessor):
    """Takes tags off graded cells, and nbgrader's marks off all copies of a cell but the last.

    A tag can say that grading passes over a cell, and nbgrader gives a check cell that did not run all of its points.
    Of copied cells nbgrader leaves the marks of the earlier ones empty, takes that for a release by an old version of
    itself, and ends the whole batch.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        seen: set[str] = set()
        for cell in reversed(nb.cells):
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name is None or name in seen:
                cell.metadata.pop("nbgrader", None)
                if name is not None:
                    self.log.warning("Cell %s is there twice; the last one counts", name)
            else:
                seen.add(name)
                cell.metadata.pop("tags", None)
        return nb, resources
