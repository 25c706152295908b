"""`nanolm/text/tokenizer.py` on a tiny tokenizer learned from one sentence, and on the shipped ones."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny_checkpoints import END, tiny_tokenizer

from nanolm.checkpoint import SHIPPED
from nanolm.text import Tokenizer

TOKENIZER = tiny_tokenizer()  # the end token, 256 bytes, 33 merges of ASCII letters
ALL = {"tiny": TOKENIZER} | {
    path.parent.name: Tokenizer.from_file(path) for path in sorted(SHIPPED.glob("*/tokenizer.json"))
}


@pytest.fixture(params=list(ALL), scope="module")
def tokenizer(request):
    return ALL[request.param]


# Any text at all but the end token spelled out, which is read as that token.
TEXTS = st.text(max_size=40).filter(lambda text: END not in text)


@given(TEXTS)
@example("  two spaces, a tab\t, a line\r\n and a zero \0 byte")
@example("👩‍👩‍👧 e\u0301 \u202e مرحبا \U0010ffff")
def test_any_text_comes_back_from_its_tokens(tokenizer, text):
    ids = tokenizer.encode(text)
    assert all(0 <= i < tokenizer.vocab_size for i in ids)
    assert tokenizer.decode(ids) == text


@given(TEXTS.filter(lambda text: not text.endswith("\ufffd")))
@example("naïve 日本語 🎉")
def test_streamed_pieces_add_up_to_the_text(tokenizer, text):
    assert "".join(tokenizer.decode_stream(tokenizer.encode(text))) == text


def test_a_character_of_several_tokens_is_streamed_whole():
    ids = TOKENIZER.encode("a🚀b")  # a rocket is four bytes, and no merge has learned them
    assert len(ids) == 6, "this test needs a character of four tokens"
    assert list(TOKENIZER.decode_stream(ids)) == ["a", "🚀", "b"], "a part of a character came out as a replacement"


def test_streaming_gives_each_piece_as_soon_as_its_token_is_there():
    taken = []

    def ids():
        for token in TOKENIZER.encode("xyz"):
            taken.append(token)
            yield token

    pieces = TOKENIZER.decode_stream(ids())
    assert next(pieces) == "x" and len(taken) == 1, "the stream read ahead instead of yielding"


def test_an_unfinished_character_is_not_streamed_and_decodes_to_a_replacement():
    ids = TOKENIZER.encode("a🚀")[:-1]
    assert list(TOKENIZER.decode_stream(ids)) == ["a"]
    assert TOKENIZER.decode(ids) == "a\ufffd"


def test_the_end_token_has_an_id_of_its_own():
    assert TOKENIZER.eos_id == TOKENIZER.inner.token_to_id(END) == 0
    assert TOKENIZER.encode(f"x{END}y") == [*TOKENIZER.encode("x"), 0, *TOKENIZER.encode("y")]
    assert Tokenizer(TOKENIZER.inner, eos_token="no such token").eos_id is None


def test_encode_adds_no_token_of_its_own(tokenizer):
    assert tokenizer.encode("") == []
    assert tokenizer.eos_id not in tokenizer.encode("To be")


def test_special_tokens_are_skipped_on_request_and_in_a_stream():
    ids = TOKENIZER.encode(f"x{END}y")
    assert TOKENIZER.decode(ids) == f"x{END}y"
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == "xy"
    assert "".join(TOKENIZER.decode_stream(ids)) == "xy"


def test_vocab_size_counts_every_id():
    assert TOKENIZER.vocab_size == 290
    assert sorted(TOKENIZER.inner.get_vocab().values()) == list(range(290))


def test_a_saved_tokenizer_reads_back_the_same(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer.json")
    again = Tokenizer.from_file(tmp_path / "tokenizer.json")
    assert (again.vocab_size, again.eos_id) == (290, 0)
    for text in ("To be, or not to be", "21 dollars", "日本語"):
        assert again.encode(text) == TOKENIZER.encode(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no tokenizer at .*nowhere\.json"):
        Tokenizer.from_file(tmp_path / "nowhere.json")


@pytest.mark.parametrize("content", [b"", b"not JSON", b"{}", b"\xff\xfe\x00", b'{"model": 1}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer\.json"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")
