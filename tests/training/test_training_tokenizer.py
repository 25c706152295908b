"""The tokenizer: any text round-trips, digits stand alone, the end token is id 0."""

import re

import pytest

from training.recipe import END_ID
from training.texts.problems import problem_documents
from training.texts.tokenizer import END_TOKEN, shared_tokenizer, train_tokenizer

TEXTS = ["ANNA\nWhat, ho! who's there?\n\nBEN\nNone but I, none but I.\n", "17 + 25 = 42.\n17 - 5 = 12.\n"] * 20


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(TEXTS), vocabulary=300)


@pytest.mark.parametrize(
    "text", [*TEXTS[:2], "", " ", "\n\n  two  spaces\t", "naïve café — 漢字 𝛾", "\x00\x7f", "a\r\nb"]
)
def test_any_text_comes_back_unchanged(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_problem_documents_come_back_unchanged(tokenizer):
    document = next(problem_documents(seed=1))
    assert tokenizer.decode(tokenizer.encode(document).ids) == document


def test_every_digit_is_a_token_of_its_own(tokenizer):
    tokens = tokenizer.encode("1725 + 17").tokens
    assert [token for token in tokens if token.strip("Ġ").isdigit()] == list("172517"), tokens


def test_the_end_token_is_id_0_and_one_token(tokenizer):
    assert tokenizer.encode(END_TOKEN).ids == [END_ID] == [0]


def test_a_prompt_and_its_answer_are_tokenised_apart_as_together(tokenizer):
    for line in next(problem_documents(seed=4)).splitlines():
        cut = re.search(r"\?|costs|\d:", line).end()
        apart = tokenizer.encode(line[:cut]).ids + tokenizer.encode(line[cut:]).ids
        assert apart == tokenizer.encode(line).ids, line


def test_learning_twice_gives_the_same_tokenizer(tokenizer):
    assert train_tokenizer(iter(TEXTS), vocabulary=300).to_str() == tokenizer.to_str()


def test_the_shared_tokenizer_is_the_file_once_it_exists(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    assert shared_tokenizer(path).to_str() == tokenizer.to_str(), "a new tokenizer was learned over the kept one"


def test_without_a_kept_file_the_shipped_tokenizer_is_taken(tokenizer, tmp_path):
    shipped = tmp_path / "shipped.json"
    shipped.write_text(tokenizer.to_str(), encoding="utf-8")
    taken = shared_tokenizer(tmp_path / "runs" / "tokenizer.json", shipped)
    assert taken.to_str() == tokenizer.to_str(), "a draft trained now would not speak the shipped target's ids"
    assert (tmp_path / "runs" / "tokenizer.json").read_text(encoding="utf-8") == tokenizer.to_str()


def test_a_vocabulary_too_small_for_the_bytes_is_refused():
    with pytest.raises(ValueError, match="vocabulary: 200 is too small"):
        train_tokenizer(iter(TEXTS), vocabulary=200)
