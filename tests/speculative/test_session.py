"""`speculative/session.py`: whatever was read and forgotten, the distributions are those of a fresh full pass."""

import random

import pytest
import torch
from by_hand import close
from tiny_models import tiny_model, tokens_of

from nanolm.sampling import SamplingParams
from nanolm.speculative import Session

MODEL = tiny_model()
T_HALF = SamplingParams(temperature=0.5)


def fresh(text, temperature=1.0):
    """The next-token distribution after each token of the text: a full pass, and torch's softmax."""
    return torch.softmax(MODEL(torch.tensor([text]))[0] / temperature, dim=-1)


TEXT = tokens_of(12).tolist()


def test_feed_gives_the_distribution_after_the_last_token():
    session = Session(MODEL, T_HALF)
    probs = session.feed(TEXT[:5])
    assert probs.shape == (1, 11) and probs.dtype == torch.float64
    assert close(probs[0], fresh(TEXT[:5], 0.5)[-1]), "temperature belongs in the probabilities, before any ratio"


@pytest.mark.parametrize("last", [1, 2, 4])
def test_feed_gives_a_row_for_each_of_the_last_tokens(last):
    session = Session(MODEL)
    session.feed(TEXT[:3])
    assert close(session.feed(TEXT[3:7], last), fresh(TEXT[:7])[7 - last :])


def test_feeding_in_pieces_equals_feeding_at_once():
    session, rows = Session(MODEL), []
    for start, end in ((0, 4), (4, 5), (5, 6), (6, 12)):
        rows.append(session.feed(TEXT[start:end], last=end - start))
        assert session.length == end
    assert session.passes == 4
    assert close(torch.cat(rows), fresh(TEXT))


def test_truncate_forgets_as_if_never_read():
    session = Session(MODEL)
    session.feed(TEXT[:9])
    session.truncate(4)
    assert session.length == 4
    other = [10, 3, 7]
    assert close(session.feed(other, last=3), fresh(TEXT[:4] + other)[4:]), "rejected tokens still have a say"


def test_any_sequence_of_feeding_and_forgetting_equals_a_fresh_reading():
    choose, session, text = random.Random(6), Session(MODEL), []
    for _ in range(60):
        if text and choose.random() < 0.4:
            del text[choose.randrange(len(text) + 1) :]
            session.truncate(len(text))
        new = [choose.randrange(11) for _ in range(choose.randint(1, min(5, 64 - len(text))))]
        text += new
        assert close(session.feed(new, last=len(new)), fresh(text)[-len(new) :])
        assert session.length == len(text)


def test_every_sampling_rule_is_applied():
    probs = Session(MODEL, SamplingParams(temperature=0.7, top_k=4, top_p=0.8)).feed(TEXT)[0]
    assert 1 <= int((probs > 0).sum()) <= 4
    assert probs.sum().item() == pytest.approx(1)
    assert Session(MODEL, SamplingParams(temperature=0.0)).feed(TEXT)[0].tolist().count(1.0) == 1


def test_a_session_has_room_for_the_context_or_for_what_it_was_told():
    session = Session(MODEL, capacity=6)
    session.feed(TEXT[:6])
    with pytest.raises(ValueError, match=r"capacity is 6 .* needs 7"):
        session.feed(TEXT[6:7])
    assert session.length == 6, "a pass that was refused must not count"
    assert Session(MODEL).cache.capacity == 64


@pytest.mark.parametrize(
    ("tokens", "last", "message"),
    [
        ([], 1, r"last is 1 and 0 tokens were given"),
        ([1, 2], 3, r"last is 3 and 2 tokens were given"),
        ([1, 2], 0, r"last is 0 and 2 tokens were given; last must be 1 to the number of tokens"),
    ],
)
def test_feed_refuses_a_last_outside_what_it_reads(tokens, last, message):
    with pytest.raises(ValueError, match=message):
        Session(MODEL).feed(tokens, last)
