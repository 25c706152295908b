"""Tests `nanolm/text/detokenizer.py`: what of an answer can be shown, and when."""

import random

import pytest
from successor_model import END_ID, byte_tokenizer
from tiny_checkpoints import tiny_tokenizer
from tiny_models import tiny_config

from nanolm.text import IncrementalDetokenizer, after_start

BYTES = byte_tokenizer()


def shown(text, *stops, skip_space=False):
    """What comes out at each byte of the text, what in the end, and the stream."""
    stream = IncrementalDetokenizer(BYTES, (END_ID,), stops, skip_space)
    return [stream.push([token]) for token in BYTES.encode(text)], stream.rest(), stream


def test_text_without_stop_strings_comes_at_once():
    pieces, rest, stream = shown("abc")
    assert pieces == ["a", "b", "c"] and rest == "" and stream.n_tokens == 3


def test_a_character_of_several_bytes_comes_with_its_last_one():
    # é is 2 bytes, € is 3, the face is 4.
    assert shown("é€😀")[0] == ["", "é", "", "", "€", "", "", "", "😀"]


def test_a_character_that_is_never_finished_is_left_out():
    stream = IncrementalDetokenizer(BYTES)
    assert stream.push(BYTES.encode("a€")[:-1]) + stream.rest() == "a"


def test_the_end_token_is_counted_and_not_shown():
    stream = IncrementalDetokenizer(BYTES, (END_ID,))
    assert stream.push([*BYTES.encode("ab"), END_ID]) == "ab" and stream.n_tokens == 3


def test_an_ordinary_token_can_be_an_end_token_and_is_not_shown():
    (z,) = BYTES.encode("z")
    assert IncrementalDetokenizer(BYTES, (z,)).push(BYTES.encode("az")) == "a"


def test_a_stop_string_over_several_tokens_is_never_shown_and_ends_the_text():
    pieces, rest, stream = shown("say STOP now", "STOP")
    assert "".join(pieces) == "say " and rest == "" and stream.stopped
    assert stream.n_tokens == 8, "tokens after the stop string do not count"


def test_what_may_begin_a_stop_string_waits_until_it_does_not():
    pieces, rest, _ = shown("aSTa", "STOP")
    assert pieces == ["a", "", "", "STa"] and rest == ""


def test_a_stop_string_that_is_not_finished_is_shown_in_the_end():
    pieces, rest, stream = shown("aSTO", "STOP")
    assert "".join(pieces) == "a" and rest == "STO" and not stream.stopped


def test_a_stop_string_that_begins_anew_inside_itself_is_found():
    # After "aab" has failed at "aaa", its beginning "aa" is still there.
    assert "".join(shown("xaaab", "aab")[0]) == "xa"


def test_a_stop_string_inside_one_token_is_found():
    tokenizer = tiny_tokenizer(290)
    token = next(i for i in range(257, 290) if len(tokenizer.decode([i])) > 1)
    text = tokenizer.decode([token])
    stream = IncrementalDetokenizer(tokenizer, stops=[text[1]])
    assert stream.push([token]) == text[0] and stream.stopped


@pytest.mark.parametrize("stops", [("b", "abc"), ("abc", "b")])
def test_of_two_stop_strings_the_one_complete_first_ends_the_text(stops):
    assert "".join(shown("xabc", *stops)[0]) == "xa"


@pytest.mark.parametrize("stops", [("bc", "abc"), ("abc", "bc")])
def test_of_two_stop_strings_complete_at_once_the_longer_is_cut_off(stops):
    assert "".join(shown("xabc", *stops)[0]) == "x"


def test_a_stop_string_can_lie_across_the_bytes_of_characters():
    assert "".join(shown("a€😀b", "€😀")[0]) == "a"


def test_what_is_shown_is_what_cutting_the_whole_text_gives():
    # The oracle reads the finished text, character by character, and knows nothing of tokens.
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choices("ab", k=rng.randint(0, 12)))
        stops = ["".join(rng.choices("ab", k=rng.randint(1, 4))) for _ in range(rng.randint(0, 3))]
        ends = [i for i in range(len(text) + 1) if any(text[:i].endswith(stop) for stop in stops)]
        expected = text
        if ends:
            head = text[: ends[0]]
            expected = head[: -max(len(stop) for stop in stops if head.endswith(stop))]
        pieces, rest, stream = shown(text, *stops)
        assert "".join(pieces) + rest == expected, (text, stops)
        assert stream.stopped == bool(ends)


def test_the_space_that_begins_a_chat_s_answer_is_left_out_and_no_other():
    pieces, rest, _ = shown("  a b ", skip_space=True)
    assert "".join(pieces) + rest == "a b "


def test_as_a_stop_condition_it_is_true_with_the_token_that_completes_a_stop_string():
    stream, tokens = IncrementalDetokenizer(BYTES, stops=["cd"]), BYTES.encode("abcde")
    assert [stream.stops_at(tokens[:n]) for n in range(1, 5)] == [False, False, False, True]
    assert stream.stops_at(tokens), "over is over"


def test_a_prompt_begins_with_the_start_token_where_the_model_has_one():
    with_start, without = tiny_config(vocab_size=257, bos_token_id=5), tiny_config(vocab_size=257)
    assert after_start([7, 8], with_start) == [5, 7, 8]
    assert after_start([7, 8], without) == [7, 8]
