"""nbgrader for this course: instructors edit solutions/, students open notebooks/, private things lie in grading/."""

import os
from pathlib import Path

from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, DeduplicateIds, OverwriteCells, OverwriteKernelspec

from course.nbgrader_step import MendSubmission

c = get_config()  # nbgrader defines it before it runs this file

root = Path(__file__).resolve().parent
# nbgrader does not make it, and without it the gradebook cannot be opened.
(root / "grading").mkdir(exist_ok=True)

c.CourseDirectory.root = str(root)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.db_url = f"sqlite:///{(root / 'grading' / 'gradebook.db').as_posix()}"

c.ClearSolutions.code_stub = {"python": "# Write your code here, in the place of the next line.\nraise NotYetWritten"}
c.ClearSolutions.text_stub = "YOUR ANSWER HERE"

# Where `release_assignment` and `collect` of the formgrader's menu put things; without it every page warns.
(root / "grading" / "exchange").mkdir(exist_ok=True)
c.CourseDirectory.course_id = "nanolm"
c.Exchange.root = str(root / "grading" / "exchange")

# Cells copied, tagged or deleted by accident cost nobody a mark, and the class not its evening.
c.Autograde.sanitize_preprocessors = [
    MendSubmission,
    *(ClearOutput, DeduplicateIds, OverwriteKernelspec, OverwriteCells, CheckCellMetadata),
]
c.OverwriteCells.add_missing_cells = True

# No point depends on a lab, the cells that measure and draw, and they take most of a notebook's time: grading passes
# over them. NANOLM_GRADE_LABS=1 runs them too, if their output is wanted in the feedback; each then measures once.
if os.environ.get("NANOLM_GRADE_LABS", "0") == "0":
    c.ExecutePreprocessor.skip_cells_with_tag = "lab"
os.environ.setdefault("NANOLM_ROUNDS", "1")

# A file `torch.py` or a folder `torch/` beside a notebook must not stand for the package: there is looked last.
c.ExecutePreprocessor.extra_arguments = [
    "--InteractiveShellApp.ignore_cwd=True",
    "--InteractiveShellApp.exec_lines=import sys; sys.path.append('')",
]

# An answer that loops, or prints for ever, must cost seconds and not the whole batch.
c.ExecutePreprocessor.timeout = 180
c.ExecutePreprocessor.interrupt_on_timeout = True
c.ExecutePreprocessor.iopub_timeout = 30
c.ExecutePreprocessor.startup_timeout = 120
