"""Grades `verify_draft`: distributions are exact, every outcome followed (enumeration.py)."""

import math
from itertools import product

import pytest
import torch
from enumeration import ScriptedRng, exact_distribution
from fakes import DRAFT_TABLE, TARGET_TABLE
from one_token import P, Q, as_int, close, name_the_mistake, no_chance_but_the_rngs, vector

from nanolm.sampling import Rng

CERTAIN = torch.eye(4, dtype=torch.float64)


def tokens(new):
    """The tokens of a round, as a list of ints."""
    assert isinstance(new, list | tuple), f"return the list of the new tokens; it is a {type(new).__name__}"
    return [as_int(token) for token in new]


@pytest.mark.exercise("verify_draft")
def test_verify_draft_adds_a_bonus_token_when_all_are_kept(impl):
    # The target is certain of 1, then 2, then 3. The draft was certain of 1, and drew 2 where 0 was as likely.
    draft = torch.stack([CERTAIN[1], (CERTAIN[0] + CERTAIN[2]) / 2])
    new = tokens(impl.verify_draft(CERTAIN[[1, 2, 3]], draft, [1, 2], ScriptedRng()))
    assert new != [1, 2], "no bonus token: the target's last row is one more distribution, already paid for"
    assert new != [2], "the first drafted token was held against row 1 of target_probs: drafted[i] goes with row i"
    assert new != [1, 1], "the second drafted token was held against row 0 of target_probs: drafted[i] goes with row i"
    assert new != [1, 0], (
        "the second drafted token has p(x) = 1 and q(x) = 1/2, and was not kept: target_probs and draft_probs are "
        "swapped"
    )
    row = {1: "row 0 of target_probs", 2: "row 1 of target_probs", 0: "the draft's last row"}
    assert new[:2] != [1, 2] or len(new) != 3 or new[2] == 3, (
        f"both were kept, and the bonus token was drawn from {row[new[2]]}: it comes from the target's last row, "
        f"target_probs[len(drafted)]. Expected [1, 2, 3], got {new}"
    )
    assert new == [1, 2, 3], f"the drafted 1 and 2 are kept for certain, and 3 is the bonus; got {new}"


@pytest.mark.exercise("verify_draft")
def test_verify_draft_draws_the_bonus_from_the_target(impl):
    target = torch.stack([CERTAIN[1], P])
    with no_chance_but_the_rngs():
        impl.verify_draft(target, CERTAIN[[1]], [1], Rng(0))
    new = exact_distribution(lambda rng: tokens(impl.verify_draft(target, CERTAIN[[1]], [1], rng))[-1])
    actual = vector(*(new.get(token, 0.0) for token in range(4)))
    assert not close(actual, [1, 0, 0, 0]), "the bonus is the target's most probable token: draw it, rng.categorical"
    assert close(actual, P), (
        f"the bonus comes from the target's last row, p = {P.tolist()}; here it is {actual.tolist()}"
    )


@pytest.mark.exercise("verify_draft")
def test_verify_draft_stops_at_the_first_rejection(impl):
    # The target is certain of 0 where the draft proposed 1: rejected, 0 comes out, and the token behind it goes.
    new = tokens(impl.verify_draft(CERTAIN[[0, 2, 3]], CERTAIN[[1, 2]], [1, 2], ScriptedRng()))
    assert new not in ([], [3]), (
        "the drafted token was rejected, and the token that came instead is missing: it belongs to the result"
    )
    assert new not in ([0, 3], [0, 2]), (
        f"a bonus token after a rejection: it is drawn only where all drafted tokens were kept; got {new}, expected [0]"
    )
    assert 1 not in new, f"the drafted 1 was rejected and is in the result: only what came in its place is; got {new}"
    assert new[:1] != [0] or len(new) == 1, (
        f"after a rejection the later drafted tokens continue another text; got {new}, expected [0]"
    )
    assert new == [0], f"the drafted 1 is rejected, and 0 comes in its place; got {new}"


@pytest.mark.exercise("verify_draft")
def test_verify_draft_has_output_distribution_p_at_its_first_token(impl):
    # The draft draws from Q; whatever is decided then, the first token of a round is distributed as P.
    target = torch.stack([P, P])

    def run(rng):
        new = tokens(impl.verify_draft(target, Q[None], [rng.categorical(Q)], rng))
        assert new, "a round gives one new token at least: a rejected one is replaced, and the other one counts"
        return new[0]

    new = exact_distribution(run)
    actual = vector(*(new.get(token, 0.0) for token in range(4)))
    assert close(actual, P, 1e-6), (
        f"{name_the_mistake(actual, P, Q)}. Comes out as {actual.tolist()}, p is {P.tolist()}"
    )


@pytest.mark.exercise("verify_draft")
def test_verify_draft_enumerated_has_the_joint_distribution_of_the_target(impl):
    def run(rng):
        drafted = [rng.categorical(DRAFT_TABLE[0])]
        drafted += [rng.categorical(DRAFT_TABLE[drafted[0]])]
        draft = DRAFT_TABLE[[0, drafted[0]]]
        new = tokens(impl.verify_draft(TARGET_TABLE[[0, *drafted]], draft, drafted, rng))
        while len(new) < 3:  # a rejection ended the round; the target writes on alone
            new.append(rng.categorical(TARGET_TABLE[new[-1]]))
        return tuple(new)

    actual = exact_distribution(run)
    for text in product(range(4), repeat=3):
        expected = math.prod(
            TARGET_TABLE[before, token].item() for before, token in zip((0, *text[:2]), text, strict=True)
        )
        assert abs(actual.get(text, 0.0) - expected) < 1e-6, (
            f"two drafted tokens, every outcome followed: text {text} comes out with probability "
            f"{actual.get(text, 0.0):.6f}, the target alone writes it with {expected:.6f}"
        )


@pytest.mark.exercise("verify_draft")
def test_verify_draft_without_guesses_draws_one_token_from_the_target(impl):
    empty = torch.empty(0, 4, dtype=torch.float64)
    new = exact_distribution(lambda rng: tuple(tokens(impl.verify_draft(P[None], empty, [], rng))))
    expected = {(token,): pytest.approx(P[token].item()) for token in range(4)}
    assert new == expected, f"no draft: one token, drawn from target_probs[0]; {{tokens: probability}} is {new}"


@pytest.mark.exercise("verify_draft")
def test_verify_draft_uses_each_guess_with_its_own_row(impl):
    # A drafted 0 under equal rows is always kept; a drafted 3 has p/q = 0.1/0.3 and is kept a third of the time.
    target, draft = torch.stack([P, P, CERTAIN[0]]), torch.stack([P, Q])
    new = exact_distribution(lambda rng: len(impl.verify_draft(target, draft, [0, 3], rng)))
    assert new == {2: pytest.approx(2 / 3), 3: pytest.approx(1 / 3)}, (
        "token i belongs to row i of both: the second is rejected with 2/3 (2 new tokens) and kept with 1/3 (3 with "
        f"the bonus); {{new tokens: probability}} is {new}"
    )
