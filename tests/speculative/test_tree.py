"""Grades `nanolm/speculative/tree.py`: distributions are exact, every outcome followed (enumeration.py)."""

import math
from itertools import product

import one_token
import pytest
import torch
from enumeration import ScriptedRng, exact_distribution
from one_token import no_chance_but_the_rngs
from refusal import assert_refuses

from nanolm.sampling import Rng

# Two siblings drawn from q. The first is kept with (0.3, 0.3, 0.2), 0.8 in all; 0.2 is rejected, always a C. The
# target owes (1, 0, 0) then. Held against p itself the second sibling gives the text (.40, .36, .24).
P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
Q = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
# Here two tokens are owed after a first rejection, (0, 2/3, 1/3, 0), so that what is owed after a second one differs.
P4 = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
Q4 = torch.tensor([0.5, 0.1, 0.1, 0.3], dtype=torch.float64)
# What the target and the draft say behind each token, three tokens; row 0 is also what follows the text.
TARGET = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.4, 0.0]], dtype=torch.float64)
DRAFT = torch.tensor([[0.3, 0.3, 0.4], [0.4, 0.4, 0.2], [0.2, 0.3, 0.5]], dtype=torch.float64)
CERTAIN = torch.eye(4, dtype=torch.float64)
NEXT_SIBLING = "1 is refused, and 2 was drawn although it was drafted too: the next sibling is tried before"


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def close(actual, expected, tolerance=1e-6):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    return torch.allclose(torch.as_tensor(actual, dtype=torch.float64), expected, rtol=0, atol=tolerance)


def first_token(impl, p, q, siblings, draw="again"):
    """The exact distribution of the first new token, with so many siblings drawn from q behind the text."""
    from nanolm.speculative import sample_siblings

    def run(rng):
        if draw == "again":
            drafted, rows = [rng.categorical(q) for _ in range(siblings)], q.repeat(siblings, 1)
        else:
            drafted, rows = sample_siblings(q, siblings, rng)
        target = torch.stack([p] + [torch.ones_like(p) / len(p)] * len(drafted))
        return impl.verify_tree(target, rows, drafted, [-1] * len(drafted), rng)[0]

    found = exact_distribution(run)
    return vector(*(found.get(token, 0.0) for token in range(len(p))))


def residual(p, q):
    left = (p - q).clamp(min=0)
    return left / left.sum()


def name_the_mistake(actual, p, q):
    """What two siblings drawn from q give under each common mistake: a match names it."""
    kept = torch.minimum(p, q)
    refused = 1 - kept.sum()
    owed = residual(p, q)
    kept_then = torch.minimum(owed, q)
    refused_then = 1 - kept_then.sum()
    suspects = {
        "the second sibling is held against p again: after a rejection the target owes the residual": kept
        + refused * (kept + refused * residual(p, q)),
        "after the last rejection it draws from p: draw from what is owed": kept
        + refused * (kept_then + refused_then * p),
        "after the last rejection it draws from the first residual: each rejection changes what is owed": kept
        + refused * (kept_then + refused_then * owed),
    }
    for mistake, result in suspects.items():
        if close(actual, result, 1e-9):
            return mistake
    return "what is kept and what is drawn do not add up to p"


@pytest.mark.exercise("verify_tree")
def test_verify_tree_of_one_drafted_token_has_output_distribution_p(impl):
    with no_chance_but_the_rngs():
        for seed in range(20):
            impl.verify_tree(torch.stack([P4, P4]), Q4[None], [3], [-1], Rng(seed))
    actual = first_token(impl, P4, Q4, 1)
    named = one_token.name_the_mistake(actual, P4, Q4)
    assert close(actual, P4), f"{named}. Comes out as {actual.tolist()}, p is {P4.tolist()}"


@pytest.mark.exercise("verify_tree")
def test_verify_tree_draws_a_bonus_token_behind_a_leaf(impl):
    # The text, then 1 or 2; 3 behind 1. All are certain: 1 and 3 are kept, and behind 3 (row 2) comes 0.
    target, draft = CERTAIN[[1, 3, 0, 2]], CERTAIN[[1, 3, 2]]
    new = impl.verify_tree(target, draft, [1, 3, 2], [-1, 0, -1], ScriptedRng())
    assert list(new) != [1, 1], (
        "1 is drafted[0] and was kept, and then row 0 of target_probs was read again: row 0 stands behind the text and "
        "row i + 1 behind drafted[i]"
    )
    assert list(new) != [1, 3], "no bonus token: the target has scored what follows the leaf as well"
    assert list(new) == [1, 3, 0], f"1 and 3 are kept, and the target's row behind 3 says 0; got {list(new)}"


@pytest.mark.exercise("verify_tree")
def test_verify_tree_reads_the_row_behind_the_token_that_was_kept(impl):
    # 1 and 2 behind the text, 3 behind 2. The target says 2 behind the text, 0 behind 1, 3 behind 2, 1 behind 3.
    draft, parents = CERTAIN[[1, 2, 3]], [-1, -1, 1]
    new = list(impl.verify_tree(CERTAIN[[2, 0, 3, 1]], draft, [1, 2, 3], parents, ScriptedRng()))
    assert new != [2], NEXT_SIBLING
    assert new != [2, 0], (
        "2 is drafted[1] and was kept, and then row 1 of target_probs was read: row 0 stands behind the text and "
        "row i + 1 behind drafted[i], so row 2 stands behind 2"
    )
    assert new == [2, 3, 1], f"2 is kept, 3 behind it, and the target goes on with 1: [2, 3, 1], got {new}"


@pytest.mark.exercise("verify_tree")
def test_verify_tree_goes_down_from_the_sibling_that_was_kept(impl):
    # 1 is refused, its sibling 2 is kept; 3 stands behind 1 and 0 behind 2, and behind 0 comes 1.
    draft, parents = CERTAIN[[1, 2, 3, 0]], [-1, -1, 0, 1]
    new = impl.verify_tree(CERTAIN[[2, 3, 0, 2, 1]], draft, [1, 2, 3, 0], parents, ScriptedRng())
    assert list(new) != [2], NEXT_SIBLING
    assert list(new) == [2, 0, 1], f"2 is kept, then 0 behind it, then 1 from the target; got {list(new)}"
    # The same tree, and the target wants 3 behind 2: nobody has drafted it there.
    new = impl.verify_tree(CERTAIN[[2, 3, 3, 2, 1]], draft, [1, 2, 3, 0], parents, ScriptedRng())
    assert list(new) == [2, 3], (
        f"the drafted 3 continues the rejected 1: only children of the kept one are tried. Behind 2 the 0 is refused "
        f"and 3 is drawn, the last of the round; got {list(new)}"
    )


@pytest.mark.exercise("verify_tree")
def test_verify_tree_keeps_one_sibling_of_a_place(impl):
    # Both say 1 with certainty: the first is kept, and the second is not asked about.
    target, draft, rng = CERTAIN[[1, 2, 2]], CERTAIN[[1, 1]], ScriptedRng()
    new = impl.verify_tree(target, draft, [1, 1], [-1, -1], rng)
    assert list(new) == [1, 2], f"one sibling is kept, then the target goes on with 2; got {list(new)}"
    assert len(rng.taken) == 2, (
        f"one bernoulli for the kept sibling and one draw; {len(rng.taken)} questions were asked"
    )


@pytest.mark.exercise("verify_tree")
def test_verify_tree_tries_siblings_in_their_order(impl):
    # A and B were drawn in this order, B without A: kept with p(A) = 0.5 at once, and B with 0.6 of what is left. The
    # other way round B comes out with p(B)/q(B), and the target's own distribution no more.
    rows = torch.stack([vector(0.5, 0.5, 0.0), vector(0.0, 1.0, 0.0)])
    found = exact_distribution(lambda rng: impl.verify_tree(torch.stack([P, P, P]), rows, [0, 1], [-1, -1], rng)[0])
    assert found.get(0, 0.0) == pytest.approx(1.0), (
        "p(A)/q(A) is 0.5/0.5, so the first child, A, is always kept; children are tried in their order, and A came "
        f"out with {found.get(0, 0.0):.3f}"
    )


@pytest.mark.exercise("verify_tree")
def test_verify_tree_of_no_tokens_draws_one_from_the_target(impl):
    new = exact_distribution(lambda rng: tuple(impl.verify_tree(P4[None], torch.empty(0, 4), [], [], rng)))
    expected = {(token,): pytest.approx(P4[token].item()) for token in range(4)}
    assert new == expected, f"no tree: one token from target_probs[0]; {{tokens: probability}} is {new}"


@pytest.mark.exercise("verify_tree")
@pytest.mark.parametrize(("p", "q"), [(P, Q), (P4, Q4)], ids=["three tokens", "four tokens"])
def test_verify_tree_with_two_siblings_has_output_distribution_p(impl, p, q):
    actual = first_token(impl, p, q, 2)
    assert close(actual, p), f"{name_the_mistake(actual, p, q)}. Comes out as {actual.tolist()}, p is {p.tolist()}"


@pytest.mark.exercise("verify_tree")
def test_verify_tree_holds_each_sibling_against_its_own_row(impl):
    # Certain guesses, as of prompt look-up: A, then B. A is kept with p(A) = 0.5; then the target owes B and C as 0.3
    # to 0.2, so B is kept with 0.6 of the rest.
    rows = torch.eye(3, dtype=torch.float64)[[0, 1]]
    target = torch.stack([P, P, P])
    found = exact_distribution(lambda rng: impl.verify_tree(target, rows, [0, 1], [-1, -1], rng)[0])
    actual = vector(*(found.get(token, 0.0) for token in range(3)))
    assert close(actual, P), (
        f"two certain guesses, A and B: each sibling has a row of draft_probs of its own; it gives {actual.tolist()}"
    )


@pytest.mark.exercise("verify_tree")
def test_verify_tree_with_three_siblings_none_like_another_has_output_distribution_p(impl):
    for n in (1, 2, 3):
        actual = first_token(impl, P4, Q4, n, draw="without those before")
        assert close(actual, P4), (
            f"{n} siblings, each drawn without those before it, so each row of draft_probs is another one: it gives "
            f"{actual.tolist()}, p is {P4.tolist()}"
        )


def written(impl, parents, length):
    """{text: probability}: a tree of this shape, drafted after DRAFT, verified, and the text filled up from TARGET."""

    def run(rng):
        drafted, rows = [], []
        for parent in parents:
            q = DRAFT[drafted[parent] if parent >= 0 else 0]
            drafted.append(rng.categorical(q))
            rows.append(q)
        new = impl.verify_tree(TARGET[[0, *drafted]], torch.stack(rows), drafted, parents, rng)
        while len(new) < length:
            new = [*new, rng.categorical(TARGET[new[-1]])]
        return tuple(new[:length])

    return exact_distribution(run)


@pytest.mark.exercise("verify_tree")
@pytest.mark.parametrize(
    "parents", [[-1, -1, 0], [-1, 0, -1, 2], [-1, 0, 0]], ids=["two, one behind the first", "two lines", "a fork"]
)
def test_verify_tree_enumerated_has_the_joint_distribution_of_the_target(impl, parents):
    actual = written(impl, parents, 3)
    for text in product(range(3), repeat=3):
        expected = math.prod(TARGET[before, token].item() for before, token in zip((0, *text), text, strict=False))
        assert abs(actual.get(text, 0.0) - expected) < 1e-6, (
            f"parents {parents}: text {text} comes out with probability {actual.get(text, 0.0):.6f}, the target alone "
            f"writes it with {expected:.6f}"
        )


@pytest.mark.exercise("verify_tree")
def test_verify_tree_of_a_line_is_verify_draft(impl):
    from nanolm.speculative import verify_draft

    target, draft, drafted = torch.stack([P4, Q4, P4, Q4]), torch.stack([Q4, P4, Q4]), [0, 1, 3]
    line = exact_distribution(lambda rng: tuple(verify_draft(target, draft, drafted, rng)))
    tree = exact_distribution(lambda rng: tuple(impl.verify_tree(target, draft, drafted, [-1, 0, 1], rng)))
    for text in line.keys() | tree.keys():
        ours, theirs = tree.get(text, 0.0), line.get(text, 0.0)
        assert abs(ours - theirs) < 1e-9, (
            f"a tree without branches is a line: verify_draft gives {list(text)} with probability {theirs:.4f}, this "
            f"with {ours:.4f}"
        )


@pytest.mark.exercise("verify_tree")
@pytest.mark.parametrize(
    ("rows", "drafted", "parents", "names"),
    [
        (3, [0, 1], [-1], "parents"),
        (3, [0, 1], [-1, 1], "parents"),
        (3, [0, 1], [-2, 0], "parents"),
        (3, [0], [-1], "draft_probs"),
        (2, [0, 1], [-1, 0], "target_probs"),
        (3, [0, 3], [-1, 0], "drafted"),
    ],
    ids=[
        "one too few",
        "its own parent",
        "below the text",
        "a row too many",
        "no row behind a leaf",
        "a token that q cannot have drawn",
    ],
)
def test_verify_tree_refuses_what_is_no_tree(impl, rows, drafted, parents, names):
    target, draft = P4.repeat(rows, 1), vector(0.4, 0.3, 0.3, 0.0).repeat(2, 1)
    assert_refuses(names, impl.verify_tree, target, draft, drafted, parents, ScriptedRng())


# --- the reference alone -----------------------------------------------------------------------------------------


def test_siblings_held_against_p_twice_give_what_the_lesson_says():
    kept, owed = torch.minimum(P, Q), residual(P, Q)
    assert close(kept + 0.2 * (kept + 0.2 * owed), [0.40, 0.36, 0.24])


def test_sample_siblings_gives_different_tokens_and_the_distribution_of_each():
    from nanolm.speculative import sample_siblings

    def run(rng):
        tokens, rows = sample_siblings(P, 2, rng)
        assert close(rows[0], P) and rows[1][tokens[0]] == 0 and close(rows[1].sum(), 1.0)
        return tuple(tokens)

    found = exact_distribution(run)
    # First A with 0.5, then B with 0.3/0.5, and so on.
    expected = {(a, b): P[a] * P[b] / (1 - P[a]) for a in range(3) for b in range(3) if a != b}
    assert found == {pair: pytest.approx(prob.item()) for pair, prob in expected.items()}
    tokens, rows = sample_siblings(vector(0.0, 1.0, 0.0), 3, Rng(0))
    assert tokens == [1] and rows.shape == (1, 3)
    assert_refuses("n", sample_siblings, P, 0, Rng(0))
