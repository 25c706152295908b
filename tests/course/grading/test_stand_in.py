"""`needs`: the reference stands in for what is missing or unwritten, says so, and is never taken for an answer."""

import pytest
from answers import notebook_text
from tiny_models import tiny_model

from course import CheckFailed, CourseError, NotYetWritten
from course.grading.checking import examine
from course.grading.stand_in import needs, unwritten
from course.registry import find
from nanolm.cache import KVCache
from nanolm.speculative import residual_distribution


def stub(*arguments):
    raise NotYetWritten


def space_of(*modules, **changed):
    space = {"__name__": "__main__"}
    exec(notebook_text(*modules), space)
    return space | changed


def cache_space(**methods):
    space = space_of("cache.contiguous")
    for name, method in methods.items():
        setattr(space["KVCache"], name, method)
    return space


@pytest.mark.parametrize(
    "mine", [{}, {"residual_distribution": residual_distribution}, {"residual_distribution": stub}]
)
def test_the_reference_stands_in_for_a_function_that_is_missing_imported_or_unwritten(mine):
    space = dict(mine)
    assert needs(space, ("4.1",), {}) == ["with the reference in place of 4.1 residual_distribution"]
    assert space["residual_distribution"] is residual_distribution
    with pytest.raises(CourseError, match="run the cell above"):
        examine("4.1", space)


def test_a_written_function_is_left_alone_even_where_it_is_wrong():
    def wrong(target_probs, draft_probs):
        return target_probs

    space = {"residual_distribution": wrong}
    assert needs(space, ("4.1",), {}) == [] and space["residual_distribution"] is wrong


def test_an_unwritten_method_is_lent_and_the_written_ones_stay():
    space = cache_space(advance=stub)
    update = vars(space["KVCache"])["update"]
    assert needs(space, ("2.5",), {}) == ["with the reference in place of 2.5 KVCache.advance"]
    assert vars(space["KVCache"])["update"] is update
    cache = space["KVCache"](tiny_model().config)
    cache.advance(3)
    assert cache.length == 3


def test_a_method_that_was_lent_is_still_unwritten_for_a_check():
    space = cache_space(advance=stub)
    needs(space, ("2.5",), {})
    assert unwritten(find("2.5"), space) == ["KVCache.advance"]
    with pytest.raises(CheckFailed, match=r"not written yet: KVCache\.advance"):
        examine("2.5", space)
    assert needs(space, ("2.5",), {}) == ["with the reference in place of 2.5 KVCache.advance"]


def test_a_class_that_is_missing_is_the_reference_s():
    space = {}
    assert "2.5 KVCache.update, KVCache.advance" in needs(space, ("2.5",), {})[0]
    assert space["KVCache"] is KVCache
    assert unwritten(find("2.5"), space) == list(find("2.5").targets)


def test_what_another_cell_makes_is_asked_for_by_the_heading_over_it():
    with pytest.raises(CourseError, match="this cell uses seconds from the cells under “Measure it”: run those first"):
        needs({"rows": 1}, (), {"seconds": "Measure it", "rows": "Prediction 1"})


def test_nothing_is_said_where_nothing_is_missing():
    space = space_of("speculative.acceptance")
    assert needs(space, ("4.1",), {"residual_distribution": "Anywhere"}) == []
    assert unwritten(find("4.1"), space) == []
