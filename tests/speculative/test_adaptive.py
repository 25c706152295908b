"""Tests `adaptive`: on where drafting pays, off where it does not, by times that are given and not measured."""

import itertools
import math

import pytest

from nanolm.speculative import AdaptiveGamma, PassTimes


def served(control, n_passes, n_requests=1, alpha=1.0, fixed=1.0, per_token=0.0, per_draft=0.1):
    """Let passes run whose time is fixed + per_token · tokens, and a drafted token's per_draft; the γ of each."""
    chosen, right = [], 0.0
    for _ in range(n_passes):
        gamma = control.gamma(n_requests)
        chosen.append(gamma)
        control.time_target(n_requests * (1 + gamma), fixed + per_token * n_requests * (1 + gamma))
        if gamma:
            control.time_draft(n_requests, per_draft)
            for _ in range(n_requests):
                right += alpha  # as many as fit are right, one after the other
                n_kept = min(gamma, int(right))
                right -= n_kept
                control.count(gamma, gamma, min(gamma, n_kept + 1), n_kept)
    return chosen


def test_it_drafts_where_checking_is_free_and_the_draft_is_right():
    control = AdaptiveGamma(4)
    chosen = served(control, 60, alpha=4.0)
    assert control.is_on and control.gain > 2
    assert chosen[-8:].count(4) >= 6, "a right draft that costs a tenth: as many as allowed"


def test_it_stops_where_each_token_costs_and_the_draft_is_wrong():
    control = AdaptiveGamma(4)
    chosen = served(control, 60, alpha=0.0, fixed=0.1, per_token=1.0)
    assert not control.is_on and control.gain < 1
    assert chosen[10:].count(0) >= 46, "two passes of a look after each wait, no more"


def test_it_stops_for_many_requests_and_goes_on_for_one():
    # A pass takes 1 + 0.1 a token: 5 tokens for one request are 1.5, for 64 they are 33 against 7.4.
    control = AdaptiveGamma(4)
    costs = dict(alpha=2.0, fixed=1.0, per_token=0.1, per_draft=0.05)
    served(control, 40, n_requests=64, **costs)
    assert not control.is_on
    served(control, 40, n_requests=1, **costs)
    assert control.is_on


def test_it_comes_back_when_the_text_becomes_easy():
    control = AdaptiveGamma(4)
    served(control, 100, alpha=0.0)
    assert not control.is_on
    chosen = served(control, 2000, alpha=4.0)
    assert control.is_on and chosen[-1] > 0, "it has to look again now and then, or would be off for ever"


def test_it_looks_the_other_way_more_and_more_rarely():
    control = AdaptiveGamma(4)
    chosen = served(control, 2000, alpha=0.0)
    looks = [i for i, gamma in enumerate(chosen) if gamma and i > 20]
    gaps = [b - a for a, b in itertools.pairwise(looks) if b - a > 2]
    assert gaps == sorted(gaps) and gaps[-1] > 4 * gaps[0]


def test_it_runs_without_drafts_first_to_have_something_to_compare_with():
    assert served(AdaptiveGamma(4), 3) == [0, 0, 0]


def test_what_must_not_adapt_always_drafts():
    assert served(AdaptiveGamma(3, adaptive=False), 10, alpha=0.0, per_token=5.0) == [3] * 10


def test_counts_are_told():
    control = AdaptiveGamma(4, adaptive=False)
    assert math.isnan(control.alpha) and math.isnan(control.gain)
    control.count(4, 4, 3, 2)
    control.count(4, 2, 2, 2)
    assert (control.n_drafted, control.n_accepted) == (6, 4)
    assert control.alpha == pytest.approx((2 * 0.99 + 2) / (3 * 0.99 + 2))


def test_times_between_two_that_are_known_lie_on_a_line():
    times = PassTimes()
    assert times.seconds(8) is None
    for n, seconds in ((4, 1.0), (16, 4.0)):
        times.add(n, seconds)
    assert times.seconds(4) == 1.0 and times.seconds(10) == pytest.approx(2.5)
    assert times.seconds(32) == 8.0, "beyond: as if each token cost, which is the careful guess"
    assert times.seconds(2) == 1.0 and times.seconds(100) is None


def test_one_slow_pass_is_not_believed():
    times = PassTimes()
    for seconds in (1.0, 30.0, 1.1, 1.0):
        times.add(8, seconds)
    assert times.seconds(8) <= 1.1
