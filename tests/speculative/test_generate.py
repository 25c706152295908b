"""Grades `speculative_generate`: texts are exact, every outcome followed (enumeration.py); the rest is counted."""

import math
from itertools import product

import pytest
from enumeration import count_paths, exact_distribution
from fakes import DRAFT_TABLE, TARGET_TABLE, ScriptedDraft, TableDraft, TableReader, one_hot_rows
from one_token import P, Q
from refusal import assert_refuses

from nanolm.sampling import Rng


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(("n", "gamma", "asked"), [(6, 2, [2, 2]), (5, 2, [2, 1]), (4, 2, [2, 0]), (3, 8, [2])])
def test_speculative_generate_drafts_no_more_than_can_be_used(impl, n, gamma, asked):
    cycle, seen = one_hot_rows(1, 2, 3, 0), []

    class Asked(TableDraft):
        def propose(self, text, gamma, rng):
            seen.append(gamma)
            return super().propose(text, gamma, rng)

    impl.speculative_generate(TableReader(cycle), Asked(cycle), [0], n, gamma, Rng(1))
    assert seen == asked, (
        f"{n} tokens at γ = {gamma}, every draft right: the rounds draft {asked}, since with r tokens left the round's "
        f"own last token leaves room for r - 1, and the last round may overshoot; here they drafted {seen}"
    )


def exact_texts(impl, n, gamma, start=0):
    return lambda rng: tuple(impl.speculative_generate(TableReader(), TableDraft(), [start], n, gamma, rng)[0])


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(("n", "gamma"), [(2, 1), (3, 1), (3, 2)])
def test_speculative_generate_enumerated_has_the_joint_distribution_of_the_target(impl, n, gamma):
    actual = exact_distribution(exact_texts(impl, n, gamma))
    assert len(actual) > 1, f"the text is always {next(iter(actual))}, whatever `rng` says: all chance comes from it"
    lengths = {len(text) for text in actual}
    assert lengths != {n + 1}, "the prompt is in the result: return the new tokens without the prompt"
    assert max(lengths) <= n, f"{n} tokens were asked for and {max(lengths)} came: the last round may overshoot"
    assert lengths == {n}, f"{n} new tokens were asked for; texts of {sorted(lengths)} tokens came out"
    for text in product(range(4), repeat=n):
        expected = math.prod(
            TARGET_TABLE[before, token].item() for before, token in zip((0, *text), text, strict=False)
        )
        assert abs(actual.get(text, 0.0) - expected) < 1e-9, (
            f"text {text} comes out with probability {actual.get(text, 0.0):.6f}, the target alone writes it with "
            f"{expected:.6f}: look at the caches after a rejection, and at where the last token of a round comes from"
        )
    assert sum(actual.values()) == pytest.approx(1.0, abs=1e-6), "texts of another length came out too"


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(("n", "gamma", "passes"), [(12, 3, 3), (13, 3, 4), (5, 4, 1), (7, 0, 7), (1, 5, 1)])
def test_speculative_generate_with_draft_equal_to_target_needs_n_over_gamma_plus_one_passes(impl, n, gamma, passes):
    target = TableReader()
    tokens, stats = impl.speculative_generate(target, TableDraft(TARGET_TABLE), [0], n, gamma, Rng(seed=1))
    assert len(tokens) == n, f"asked for {n} tokens, got {len(tokens)}"
    assert target.passes == passes, (
        f"draft = target keeps every token, so {n} tokens at γ = {gamma} take ⌈{n}/({gamma}+1)⌉ = {passes} passes, not "
        f"{target.passes}: is the bonus token missing?"
    )
    assert stats.target_forwards == passes, "call stats.count once a round"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_writes_exactly_max_new_tokens(impl):
    for n in range(8):
        tokens, _ = impl.speculative_generate(TableReader(), TableDraft(TARGET_TABLE), [0], n, 3, Rng(seed=n))
        assert len(tokens) == n, f"asked for {n} tokens, got {len(tokens)}: the last round may overshoot"


class OneRound(TableDraft):
    """A draft whose first four tokens have an end token, 2, among them, so that it is asked once."""

    n_rounds = 0

    def propose(self, text, gamma, rng):
        self.n_rounds += 1
        assert self.n_rounds == 1, (
            "it went on behind an end token: 2 ends the text and is its last token, though it stands in the middle of "
            f"the first round; another round began, after {text}"
        )
        return super().propose(text, gamma, rng)


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_ends_at_an_end_token_inside_the_draft(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    tokens, stats = impl.speculative_generate(TableReader(cycle), OneRound(cycle), [0], 12, 4, Rng(1), end_tokens=[2])
    assert tokens != [1], "the end token is missing from the result: 2 ends the text and is its last token"
    assert tokens == [1, 2], f"2 ends the text and is its last token: cut the rest of its round off; got {tokens}"
    assert stats.target_forwards > 0, (
        "one round was run and none is counted: the round that ends the text is counted too, so call stats.count "
        "before you stop"
    )
    assert stats.new_tokens == 2, "only what goes into the text counts as written: stats.count(done, len(new))"
    counts = (stats.drafted, stats.examined, stats.accepted)
    assert counts[1:] != (2, 1), (
        f"the round was cut before it was counted, {counts[1]} examined and {counts[2]} accepted: count it whole, "
        "stats.count(done, len(new))"
    )
    assert counts[0], "drafted is 0: what the draft proposed was not counted (stats.count counts all there is)"
    assert counts == (4, 4, 4), f"4 tokens were drafted, examined and accepted; counted {counts}"


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize("ends", [[9, 2], (9, 2), [2, 9]])
def test_speculative_generate_ends_at_any_of_the_end_tokens(impl, ends):
    cycle = one_hot_rows(1, 2, 3, 0)
    tokens, _ = impl.speculative_generate(TableReader(cycle), TableDraft(cycle), [0], 6, 2, Rng(1), end_tokens=ends)
    assert tokens == [1, 2], f"each of the end tokens {ends} ends the text, and 2 is one of them; got {tokens}"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_writes_behind_a_prompt_that_ends_with_an_end_token(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    tokens, _ = impl.speculative_generate(TableReader(cycle), TableDraft(cycle), [1, 2], 3, 2, Rng(1), end_tokens=[2])
    assert tokens == [3, 0, 1], f"an end token of the prompt ends nothing, be it the last; got {tokens}"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_goes_on_behind_an_end_token_of_the_prompt(impl):
    # 2 stands in the prompt; 0, 1 and then another 2 are written, in two rounds.
    cycle = one_hot_rows(1, 2, 3, 0)
    tokens, _ = impl.speculative_generate(TableReader(cycle), TableDraft(cycle), [2, 3], 12, 1, Rng(1), end_tokens=[2])
    assert tokens == [0, 1, 2], (
        f"the prompt [2, 3] has an end token, 2, and that ends nothing: only one that was written does. Expected "
        f"[0, 1, 2], got {tokens}"
    )


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_goes_on_from_what_both_have_read_of_the_prompt(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    target, draft = TableReader(cycle), TableDraft(cycle)
    target.read, draft.read = [1, 2], [1]
    tokens, _ = impl.speculative_generate(target, draft, [1, 2, 3], 3, 2, Rng(1))
    assert tokens == [0, 1, 2], f"behind the prompt [1, 2, 3] come 0, 1 and 2; got {tokens}"
    assert target.fed == [3, 0, 1], (
        f"the target had read [1, 2] of the prompt and was fed {target.fed}: what it has read already stays read"
    )
    assert draft.fed == [2, 3, 0], (
        f"the draft had read [1] of the prompt and was fed {draft.fed}: what it has read already stays read"
    )


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_with_certain_models_is_greedy_decoding(impl):
    # Temperature 0 makes every distribution certain. The draft is wrong after 1 and after 3.
    target, draft = TableReader(one_hot_rows(1, 2, 3, 0)), TableDraft(one_hot_rows(1, 0, 3, 2))
    tokens, _ = impl.speculative_generate(target, draft, [0], 11, 3, Rng(seed=0))
    assert tokens == [(i + 1) % 4 for i in range(11)], "a wrong draft may cost time, never change the text"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_hands_every_round_to_on_round(impl):
    cycle, seen = one_hot_rows(1, 2, 3, 0), []
    impl.speculative_generate(TableReader(cycle), TableDraft(cycle), [0], 6, 2, Rng(1), on_round=seen.append)
    assert seen, "on_round was given and never called: call it with every round"
    assert [done.tokens for done in seen] == [[1, 2, 3], [0, 1, 2]], (
        f"two rounds of three tokens were run: call on_round with each, once; it was called with {seen}"
    )


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_hands_on_the_round_that_ends_the_text_and_hands_it_on_whole(impl):
    cycle, seen = one_hot_rows(1, 2, 3, 0), []
    arguments = (TableReader(cycle), TableDraft(cycle), [0], 12, 4, Rng(1))
    impl.speculative_generate(*arguments, end_tokens=[2], on_round=seen.append)
    assert seen, "the round that ends the text was not handed to on_round: call it before you stop"
    assert [(done.drafted, done.tokens) for done in seen] == [([1, 2, 3, 0], [1, 2, 3, 0, 1])], (
        f"on_round sees each round whole, also what an end token cuts off; it was called with {seen}"
    )


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_counts_what_it_did(impl):
    # Round 1: drafted 2, 2 against 1: rejected. Round 2, after 1: drafted 2 kept, drafted 2 against 3 rejected.
    target = TableReader(one_hot_rows(1, 2, 3, 0))
    tokens, stats = impl.speculative_generate(target, ScriptedDraft([2, 2]), [0], 3, 2, Rng(seed=0))
    assert tokens == [1, 2, 3]
    counts = (stats.target_forwards, stats.drafted, stats.examined, stats.accepted, stats.new_tokens)
    assert counts == (2, 3, 2, 1, 3), (
        "stats.count takes each round down: 2 passes, 3 tokens drafted, 2 of them examined, 1 kept, 3 tokens written; "
        f"counted {counts}"
    )


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(
    ("prompt", "n", "gamma", "names"),
    [([], 3, 2, "prompt"), ([0], -1, 2, "max_new_tokens"), ([0], 3, -1, "gamma"), ([0], 0, -1, "gamma")],
)
def test_speculative_generate_refuses_an_impossible_request(impl, prompt, n, gamma, names):
    assert_refuses(names, impl.speculative_generate, TableReader(), TableDraft(), prompt, n, gamma, Rng(seed=0))


# --- the reference alone -----------------------------------------------------------------------------------------


def test_enumeration_follows_every_path_once():
    from nanolm import speculative

    same_p, same_q = P.repeat(4, 1), Q.repeat(4, 1)

    def run(rng):
        return tuple(speculative.speculative_generate(TableReader(same_p), TableDraft(same_q), [0], 2, 1, rng)[0])

    # A drafted 0 or 3 (p < q): kept, then 4 bonus tokens; or not, then 2 residual tokens with 4 tokens of plain
    # decoding behind each: 12 paths. A drafted 1 or 2 (p > q): kept for certain, 4 bonus tokens. 2·12 + 2·4 = 32.
    assert count_paths(run) == 32
    assert sum(exact_distribution(run).values()) == pytest.approx(1.0, abs=1e-6)


def test_baseline_generate_has_the_joint_distribution_of_the_target():
    from nanolm.speculative import baseline_generate

    actual = exact_distribution(lambda rng: tuple(baseline_generate(TableReader(), [0], 2, rng)[0]))
    for text in product(range(4), repeat=2):
        expected = (TARGET_TABLE[0, text[0]] * TARGET_TABLE[text[0], text[1]]).item()
        assert actual.get(text, 0.0) == pytest.approx(expected, abs=1e-6)


def test_baseline_generate_stops_at_the_end_token():
    from nanolm.speculative import baseline_generate

    tokens, stats = baseline_generate(TableReader(one_hot_rows(1, 2, 3, 0)), [0], 9, Rng(seed=0), end_tokens=[3])
    assert tokens == [1, 2, 3] and stats.target_forwards == 3


def test_stats_of_nothing_are_nan_not_an_error():
    from nanolm.speculative import SpecDecodeStats

    assert math.isnan(SpecDecodeStats().acceptance_rate) and math.isnan(SpecDecodeStats().tokens_per_target_forward)


def test_the_measured_acceptance_rate_estimates_alpha():
    from nanolm.speculative import speculative_generate

    # One row for every context, so α is 0.7 everywhere. About 4,000 examined tokens: 0.05 is 6.9 standard
    # deviations (√(0.21/4000) = 0.0072), a false alarm below 1e-10; the seed is fixed.
    same_p, same_q = P.repeat(4, 1), Q.repeat(4, 1)
    _, stats = speculative_generate(TableReader(same_p), TableDraft(same_q), [0], 5000, 3, Rng(seed=3))
    assert stats.examined > 3000
    assert stats.acceptance_rate == pytest.approx(0.7, abs=0.05)
    assert stats.tokens_per_target_forward == pytest.approx(2.533, abs=0.1)  # 1 + 0.7 + 0.49 + 0.343


def test_draft_table_has_a_zero_where_the_target_has_none():
    assert DRAFT_TABLE[3, 0] == 0 and TARGET_TABLE[3, 0] > 0  # the case is covered by the enumerations above
