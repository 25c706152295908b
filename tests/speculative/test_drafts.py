"""Grades `speculative/drafts.py`: prompt-lookup by cases, the drafts by what they read and what they draw from."""

import math
import random

import pytest
import torch
from by_hand import close
from enumeration import ScriptedRng
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses
from tiny_models import tiny_model, tokens_of

from course.grading import seeds
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import ModelDraft, NgramIndex, PromptLookupDraft, drafts, speculate

# --- prompt_lookup -----------------------------------------------------------------------------------------------


@pytest.mark.exercise("prompt_lookup")
@pytest.mark.parametrize(
    ("text", "gamma", "expected"),
    [
        # The tail 1 2 3 stands at the start too, and was followed by 4 5.
        ([1, 2, 3, 4, 5, 1, 2, 3], 2, [4, 5]),
        # No other 9 2 and no 8 9 2; 2 alone was followed by 7 1.
        ([5, 2, 7, 1, 8, 9, 2], 2, [7, 1]),
        ([1, 2, 3, 4, 5], 3, []),
        ([1, 2, 3, 1, 2, 3], 0, []),
    ],
    ids=["three tokens", "one token", "no match", "nothing asked for"],
)
def test_prompt_lookup_copies_what_followed_the_last_tokens_before(impl, text, gamma, expected):
    found = list(impl.prompt_lookup(text, gamma))
    is_found_by_three = bool(list(impl.prompt_lookup([1, 2, 3, 4, 5, 1, 2, 3], 2)))
    assert found or not expected or not is_found_by_three, (
        f"nothing found in {text}, where {expected} followed the last token before: where no max_ngram tokens match, n "
        "goes down to 1"
    )
    assert found or not expected, (
        f"nothing found in {text}, where {expected} followed before: did the last tokens match themselves?"
    )
    assert not expected or found[0] not in text[-3:], (
        f"{found} begins with a token that was matched: the draft is what followed the match, {expected}"
    )
    assert len(found) <= gamma, f"{found} are more than γ = {gamma} tokens"
    assert found == expected, f"after {text} the draft is {expected}: what followed the last tokens before; got {found}"


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_prefers_the_longer_match(impl):
    # 2 3 was followed by 4, long ago; 3 alone by 9, more recently.
    found = list(impl.prompt_lookup([2, 3, 4, 7, 3, 9, 2, 3], 1))
    assert found != [9], "the longest n is tried first: two matching tokens say more than one"
    assert found == [4], f"2 3 was followed by 4; got {found}"


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_prefers_the_latest_of_equal_matches(impl):
    found = list(impl.prompt_lookup([1, 2, 5, 1, 2, 6, 1, 2], 1))
    assert found != [5], "of several matches the latest wins: a text resembles its recent past"
    assert found == [6], f"1 2 was last followed by 6; got {found}"


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_does_not_match_the_tail_with_itself(impl):
    assert list(impl.prompt_lookup([1, 2, 3], 2)) == [], "the last tokens match themselves, and nothing follows them"


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_may_overlap_the_tail(impl):
    # 7 7 at positions 3 and 4 overlaps the tail at 4 and 5, and was followed by the last 7; the 7 7 before it by 5.
    found = list(impl.prompt_lookup([7, 7, 5, 7, 7, 7], 1))
    assert found == [7], f"the match may share tokens with the tail, as long as something follows it; got {found}"


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_ends_where_the_text_ends(impl):
    found = list(impl.prompt_lookup([1, 2, 3, 1], 9))
    assert found == [2, 3, 1], f"fewer than γ tokens where the text is too short: [2, 3, 1], not {found}"


@pytest.mark.exercise("prompt_lookup")
@pytest.mark.parametrize(("max_ngram", "expected"), [(1, [9]), (2, [4]), (3, [4])])
def test_prompt_lookup_looks_for_at_most_max_ngram_tokens(impl, max_ngram, expected):
    found = list(impl.prompt_lookup([2, 3, 4, 7, 3, 9, 2, 3], 1, max_ngram))
    assert max_ngram > 1 or found != [4], (
        "no more than max_ngram tokens are compared: 4 followed 2 3, which are two, and max_ngram is 1"
    )
    assert found == expected, f"with max_ngram = {max_ngram} the draft is {expected}, not {found}"


@pytest.mark.exercise("prompt_lookup")
@pytest.mark.parametrize("text", [[], [4]])
def test_prompt_lookup_of_a_text_without_a_past_is_empty(impl, text):
    found = list(impl.prompt_lookup(text, 3))
    assert found == [], f"{text} has no past to copy from: an empty list, not {found}"


def lookup_by_strings(text, gamma, max_ngram):
    """The same rule by str.rfind: each token a letter."""
    letters = "".join(chr(ord("a") + token) for token in text)
    for n in range(max_ngram, 0, -1):
        at = letters.rfind(letters[-n:], 0, len(letters) - 1) if len(letters) > n else -1
        if at >= 0:
            return [ord(letter) - ord("a") for letter in letters[at + n : at + n + gamma]]
    return []


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_equals_a_search_in_strings(impl):
    chance = random.Random(seeds.fresh(110))
    for number in range(300):  # the shortest first: it is the easiest to look at
        text, gamma, max_ngram = chance.choices(range(3), k=number // 23), chance.randrange(5), chance.randint(1, 4)
        expected, found = lookup_by_strings(text, gamma, max_ngram), list(impl.prompt_lookup(text, gamma, max_ngram))
        assert found == expected, (
            f"after {text} with γ = {gamma} and max_ngram = {max_ngram} the draft is {expected}; got {found}"
        )


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_looks_for_three_tokens_where_nothing_is_said(impl):
    # Of 1 2 3 4 the last four stand at the start, the last three also later, the last two later still.
    text = [1, 2, 3, 4, 10, 2, 3, 4, 20, 3, 4, 30, 1, 2, 3, 4]
    copied = {10: "four", 30: "two", 20: "three"}
    found = impl.prompt_lookup(text, 1)
    length = copied.get(found[0], "other") if found else "no"
    assert found == [20], f"max_ngram is 3 where it is not given: the last three tokens are looked for, not {length}"


@pytest.mark.exercise("prompt_lookup")
@pytest.mark.parametrize("kind", [list, tuple])
def test_prompt_lookup_gives_a_list_of_any_text(impl, kind):
    found = impl.prompt_lookup(kind([7, 1, 2, 7]), 2)
    assert isinstance(found, list), (
        f"return a list, whatever the text is: a {kind.__name__} gave a {type(found).__name__}"
    )
    assert found == [1, 2], f"the last 7 was followed by 1, 2 before; a {kind.__name__} gave {found}"


@pytest.mark.exercise("prompt_lookup")
def test_prompt_lookup_leaves_the_text_alone(impl):
    text = [1, 2, 1]
    impl.prompt_lookup(text, 1).append(9)
    assert text == [1, 2, 1], "the text was changed: return a new list"


@pytest.mark.exercise("prompt_lookup")
@pytest.mark.parametrize(("gamma", "max_ngram", "names"), [(-1, 3, "gamma"), (2, 0, "max_ngram")])
def test_prompt_lookup_refuses_impossible_arguments(impl, gamma, max_ngram, names):
    assert_refuses(names, impl.prompt_lookup, [1, 2, 1], gamma, max_ngram)


# --- PromptLookupDraft -------------------------------------------------------------------------------------------


def test_a_lookup_draft_is_certain_of_each_guess():
    draft = PromptLookupDraft(vocab_size=6)
    drafted, probs = draft.propose([1, 2, 3, 5, 1, 2], 2, Rng(seed=0))
    assert drafted == [3, 5]
    assert probs.dtype == torch.float64
    assert probs.tolist() == [[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]


def test_a_lookup_draft_without_a_match_proposes_nothing():
    drafted, probs = PromptLookupDraft(vocab_size=6).propose([1, 2, 3], 2, Rng(seed=0))
    assert drafted == [] and probs.shape == (0, 6)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 2), max_size=5)), max_size=8), st.integers(1, 5))
def test_a_lookup_draft_keeps_up_with_its_text_and_with_another(steps, max_ngram):
    draft, text = PromptLookupDraft(3, max_ngram), []
    for goes_on, tokens in steps:
        text = text + tokens if goes_on else tokens  # else another request's, or the same one cut short
        assert draft.propose(text, 4, Rng(0))[0] == lookup_by_strings(text, 4, max_ngram), f"after {text}"


def test_a_lookup_draft_searches_the_whole_text_where_it_is_to_be_plain(monkeypatch):
    searched = []
    monkeypatch.setattr(drafts, "prompt_lookup", lambda *arguments: searched.append(arguments) or [2])
    assert PromptLookupDraft(3, 2, fast=False).propose([1, 2, 1], 4, Rng(0))[0] == [2]
    assert searched == [([1, 2, 1], 4, 2)]
    assert PromptLookupDraft(3, 2).propose([1, 2, 1], 4, Rng(0))[0] == [2, 1] and len(searched) == 1


def test_a_lookup_draft_reads_each_token_once(monkeypatch):
    read = []
    monkeypatch.setattr(NgramIndex, "extend", lambda self, tokens: read.extend(tokens) or self.tokens.extend(tokens))
    draft = PromptLookupDraft(9)
    for n in (3, 4, 4, 6):
        draft.propose([1, 2, 3, 4, 5, 6][:n], 2, Rng(0))
    assert read == [1, 2, 3, 4, 5, 6], "what has been indexed was read again"


def test_a_lookup_draft_has_nothing_to_forget():
    draft = PromptLookupDraft(vocab_size=6)
    draft.truncate(0)
    assert draft.length == 0


# --- ModelDraft --------------------------------------------------------------------------------------------------

DRAFT, TARGET = tiny_model(seed=1, n_layers=1), tiny_model(seed=2)
PROMPT = tokens_of(6).tolist()


def fresh(model, text, temperature=1.0):
    """The next-token distribution after the text, by a full pass."""
    return torch.softmax(model(torch.tensor([text]))[0, -1] / temperature, dim=-1)


def check_proposal(draft, text, gamma, seed, temperature):
    drafted, probs = draft.propose(text, gamma, Rng(seed))
    assert len(drafted) == len(probs) == gamma
    rng, so_far = Rng(seed), list(text)
    for guess, q in zip(drafted, probs, strict=True):
        assert close(q, fresh(DRAFT, so_far, temperature)), (
            f"after {len(so_far)} tokens the draft's distribution differs from a fresh full pass: a stale cache?"
        )
        assert guess == rng.categorical(q), "each drafted token is one draw from its own distribution"
        so_far.append(guess)
    return drafted


def test_a_model_draft_draws_each_guess_given_those_before():
    check_proposal(ModelDraft(DRAFT, SamplingParams(temperature=0.8)), PROMPT, gamma=4, seed=3, temperature=0.8)


def test_a_model_draft_goes_on_after_a_rejection_as_if_it_had_never_guessed():
    draft, sampling = ModelDraft(DRAFT, SamplingParams()), 1.0
    drafted = check_proposal(draft, PROMPT, 4, 3, sampling)
    assert draft.length == 6 + 3, "the last drafted token has been read by nobody"
    text = [*PROMPT, drafted[0], (drafted[1] + 1) % 11]  # the second drafted token was replaced
    draft.truncate(len(text) - 1)
    check_proposal(draft, text, 3, 4, sampling)


def test_a_model_draft_catches_up_when_everything_was_kept():
    draft = ModelDraft(DRAFT, SamplingParams())
    drafted = check_proposal(draft, PROMPT, 3, 5, 1.0)
    check_proposal(draft, [*PROMPT, *drafted, 9], 2, 6, 1.0)  # the bonus token, and the last token it had not read


def test_a_model_draft_of_nothing_reads_nothing():
    draft = ModelDraft(DRAFT, SamplingParams())
    drafted, probs = draft.propose(PROMPT, 0, Rng(seed=0))
    assert drafted == [] and len(probs) == 0 and draft.length == 0 and draft.session.passes == 0


# --- speculate ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0, 1, 4])
@pytest.mark.parametrize("draft", [DRAFT, PromptLookupDraft(11)], ids=["model", "lookup"])
def test_greedy_speculation_writes_the_target_s_own_text(draft, gamma):
    tokens, stats = speculate(TARGET, draft, PROMPT, 20, gamma)
    assert tokens == TARGET.generate(PROMPT, 20)
    assert stats.new_tokens == 20


@pytest.mark.parametrize(
    "sampling", [SamplingParams(temperature=1.0), SamplingParams(temperature=0.7, top_k=5, top_p=0.9)]
)
def test_a_draft_equal_to_the_target_is_always_kept(sampling):
    tokens, stats = speculate(TARGET, TARGET, PROMPT, 20, gamma=4, sampling=sampling, rng=Rng(seed=1))
    assert len(tokens) == 20 and stats.acceptance_rate == 1
    # Each pass gives γ + 1 = 5 tokens: the four kept, and the bonus token.
    assert stats.target_forwards == math.ceil(20 / 5), "no bonus token: a fully accepted round yields γ + 1"


def test_speculation_repeats_with_the_seed():
    texts = [
        speculate(TARGET, DRAFT, PROMPT, 20, sampling=SamplingParams(temperature=1.0), rng=Rng(seed))[0]
        for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_speculation_ends_at_the_request_s_end_token():
    alone = TARGET.generate(PROMPT, 20)
    sampling = SamplingParams(temperature=0.0, end_tokens=(alone[6],))
    tokens, _ = speculate(TARGET, DRAFT, PROMPT, 20, sampling=sampling)
    assert tokens == alone[: alone.index(alone[6]) + 1], "an end token inside a round cuts off what comes behind it"


def test_speculation_ends_at_the_model_s_end_token():
    alone = TARGET.generate(PROMPT, 20)
    ending = tiny_model(seed=2, eos_token_ids=(alone[6],))
    assert speculate(ending, DRAFT, PROMPT, 20)[0] == alone[: alone.index(alone[6]) + 1]


def test_speculation_reports_every_round():
    rounds = []
    tokens, stats = speculate(TARGET, DRAFT, PROMPT, 12, gamma=3, rng=Rng(seed=1), on_round=rounds.append)
    assert [token for done in rounds for token in done.tokens] == tokens
    assert len(rounds) == stats.target_forwards
    assert sum(len(done.drafted) for done in rounds) == stats.drafted


def test_speculation_may_fill_the_context_to_the_last_position():
    prompt = tokens_of(50).tolist()
    assert speculate(TARGET, DRAFT, prompt, 14, gamma=5)[0] == TARGET.generate(prompt, 14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: speculate(TARGET, tiny_model(vocab_size=12), PROMPT, 3), r"draft has 12 tokens and target 11"),
        (lambda: speculate(TARGET, PromptLookupDraft(9), PROMPT, 3), r"draft has 9 tokens and target 11"),
        (lambda: speculate(TARGET, DRAFT, [], 3), r"prompt 0 is empty"),
        (lambda: speculate(TARGET, DRAFT, PROMPT, -1), r"max_new_tokens is -1; it must be 0 or more"),
        (lambda: speculate(TARGET, DRAFT, PROMPT, 3, gamma=-1), r"gamma is -1; .* 0 or more"),
        (lambda: speculate(TARGET, DRAFT, PROMPT, 60), r"prompt 0 has 6 tokens and .* at most 64"),
        (
            lambda: speculate(TARGET, tiny_model(max_positions=20), PROMPT, 20),
            r"prompt 0 has 6 tokens and .* at most 20",
        ),
        (lambda: speculate(TARGET, DRAFT, [1, 11], 3), r"holds token 11; ids run from 0 to 10"),
        (lambda: drafts.prompt_lookup([1], -1), r"gamma is -1; .* 0 or more"),
        (lambda: drafts.prompt_lookup([1], 1, 0), r"max_ngram is 0; at least 1 token must match"),
    ],
)
def test_a_bad_request_is_refused_with_its_name_and_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_asked_for_runs_no_pass():
    tokens, stats = speculate(TARGET, DRAFT, PROMPT, 0, rng=ScriptedRng())
    assert tokens == [] and stats.target_forwards == 0
