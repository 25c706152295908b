"""Whatever happens beside a request, it gets the tokens that it gets alone (helpers/any_load.py: what can happen)."""

import pytest
from any_load import Load


def assert_served(numbers):
    for number in numbers:
        try:
            load = Load(number)
            load.run()
            load.check()
        except Exception as error:
            raise AssertionError(f"load {number}: `Load({number})` of helpers/any_load.py shows it again") from error


@pytest.mark.parametrize("tens", range(10))
def test_a_hundred_loads_of_all_kinds(tens):
    assert_served(range(10 * tens, 10 * tens + 10))


# Found in the two thousand: a group's first request decodes the prompt's last token, with a draft, before the others
# have theirs.
@pytest.mark.parametrize("number", [273, 285, 561, 631, 1653, 1711, 1726, 1831, 1850, 1912, 1944])
def test_a_load_that_has_failed_once_does_not_again(number):
    assert_served([number])


@pytest.mark.slow
@pytest.mark.parametrize("hundreds", range(1, 20))
def test_two_thousand_loads_of_all_kinds(hundreds):
    assert_served(range(100 * hundreds, 100 * hundreds + 100))


def test_the_hundred_loads_are_of_all_kinds():
    # Else they would show less than they say.
    loads = [Load(number) for number in range(100)]
    assert {load.target for load in loads} >= {"plain", "mixture", "latent", "8 bits", "4 bits"}
    assert {load.draft for load in loads} >= {None, "prompt-lookup", "plain", "another", "smaller", "poisoned"}
    assert {load.cache_kind for load in loads} == {"float", "int8", "float8"}
    for name in ("plain", "adaptive", "prefix_cache"):
        assert {load.options[name] for load in loads} == {True, False}, name
