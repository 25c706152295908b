"""Whatever happens beside a request, it gets the tokens that it gets alone (helpers/any_load.py: what can happen)."""

import pytest
from any_load import WINDOWS, Load
from wide_load import WideLoad

KINDS = {"any_load": Load, "wide_load": WideLoad}


def assert_served(kind, numbers):
    for number in numbers:
        name = KINDS[kind].__name__
        try:
            load = KINDS[kind](number)
            load.run()
            load.check()
        except Exception as error:
            raise AssertionError(f"load {number}: `{name}({number})` of helpers/{kind}.py shows it again") from error


@pytest.mark.parametrize("tens", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_loads_of_all_kinds(kind, tens):
    assert_served(kind, range(10 * tens, 10 * tens + 10))


# Found in the two thousand: a group's first request decodes the prompt's last token, with a draft, before the others
# have theirs.
@pytest.mark.parametrize("number", [273, 285, 561, 631, 1653, 1711, 1726, 1831, 1850, 1912, 1944])
def test_a_load_that_has_failed_once_does_not_again(number):
    assert_served("any_load", [number])


@pytest.mark.slow
@pytest.mark.parametrize("fifties", range(1, 20))
@pytest.mark.parametrize("kind", KINDS)
def test_two_thousand_loads_of_all_kinds(kind, fifties):
    assert_served(kind, range(50 * fifties, 50 * fifties + 50))


def test_the_hundred_loads_are_of_all_kinds():
    # Else they would show less than they say.
    loads = [Load(number) for number in range(50)]
    assert {load.target for load in loads} >= {"plain", "mixture", "latent", "8 bits", "4 bits"}
    assert {load.draft for load in loads} >= {None, "prompt-lookup", "plain", "another", "smaller", "poisoned"}
    assert {load.cache_kind for load in loads} == {"float", "int8", "float8"}
    for name in ("plain", "adaptive", "prefix_cache"):
        assert {load.options[name] for load in loads} == {True, False}, name
    assert {load.target for load in [WideLoad(number) for number in range(50)]} >= WINDOWS.keys()


def test_wide_loads_have_grammars_and_scored_prompts():
    load = WideLoad(0)
    asked = [load.new() for _ in range(50)]
    assert {each.is_scored for each in asked} == {each.some is None for each in asked} == {True, False}
