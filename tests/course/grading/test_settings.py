"""An answer that sets something for the whole process: the tests behind it must not notice."""

import torch

from course.audit.cases import folder_of
from course.grading.runner import run_exercises
from course.paths import ROOT, read
from course.registry import find

SETS = """    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
"""


def test_what_an_answer_sets_is_put_back_after_each_test():
    exercise = find("absmax_scales")
    text = read(ROOT / "nanolm" / exercise.file)
    first = "    check_finite(weights)\n    scales"
    assert text.count(first) == 1
    with folder_of(exercise, text.replace(first, SETS + first)) as answers:
        run_exercises([exercise], answers, seed=1)
    found = torch.get_default_dtype(), torch.is_grad_enabled()
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    assert found == (torch.float32, True), f"an answer's settings outlive its tests: {found}"
