"""An answer that sets something for the whole process: the tests behind it must not notice."""

import random

import numpy as np
import pytest
import torch
from process_settings import settings_kept

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


def test_random_states_and_threads_are_given_back_even_where_a_test_fails():
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), settings_kept():
        random.seed(2)
        np.random.seed(2)
        torch.set_num_threads(torch.get_num_threads() + 1)
        _ = 1 / 0
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()) == states
