"""Grades `speculative/ngram_index.py` against the plain search: every text, fed in every way, gives the same draft."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm.speculative import NgramIndex, prompt_lookup


@settings(max_examples=400)
@given(
    st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=10),
    st.integers(0, 6),
    st.integers(1, 5),
)
def test_an_index_finds_after_every_chunk_what_a_search_of_the_whole_text_finds(chunks, gamma, max_ngram):
    index, text = NgramIndex(max_ngram), []
    for chunk in chunks:
        index.extend(chunk)
        text += chunk
        assert len(index) == len(text) and index.tokens == text
        assert index.propose(gamma) == prompt_lookup(text, gamma, max_ngram), f"{text}, γ = {gamma}, n ≤ {max_ngram}"


@settings(max_examples=200)
@given(st.text("ab", max_size=40), st.integers(1, 5))
def test_an_index_fed_token_by_token_is_the_one_fed_at_once(letters, max_ngram):
    tokens, one_by_one, at_once = [ord(letter) for letter in letters], NgramIndex(max_ngram), NgramIndex(max_ngram)
    for end, token in enumerate(tokens, start=1):
        one_by_one.extend([token])
        assert one_by_one.propose(4) == prompt_lookup(tokens[:end], 4, max_ngram)
    at_once.extend(tokens)
    assert at_once.propose(4) == one_by_one.propose(4)


def test_a_draft_is_a_list_of_its_own():
    index = NgramIndex()
    index.extend([1, 2, 1])
    index.propose(1).append(9)
    assert index.tokens == [1, 2, 1] and index.propose(2) == [2, 1]


def test_the_cost_of_a_token_does_not_grow_with_the_text():
    index = NgramIndex(3)
    index.extend([1, 2, 3, 4] * 500)
    assert len(index._end_of) == 12, "4 tokens, 4 pairs, 4 triples: places that are later replace earlier ones"


@pytest.mark.parametrize("call", [lambda: NgramIndex(0), lambda: NgramIndex(-1)])
def test_an_index_of_no_tokens_is_refused(call):
    assert_refuses("max_ngram", call)


def test_a_negative_draft_is_refused():
    assert_refuses("gamma", NgramIndex().propose, -1)
