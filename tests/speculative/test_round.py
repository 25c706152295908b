"""Grades `speculative_round` with stand-ins that keep honest books of what was read (fakes.py)."""

import math
from itertools import product

import pytest
from enumeration import ScriptedRng, exact_distribution
from fakes import TARGET_TABLE, ScriptedDraft, TableDraft, TableReader, one_hot_rows
from refusal import assert_refuses

from nanolm.speculative import Round


def a_round(impl, *arguments):
    """What the answer returned, if it is a Round."""
    try:
        done = impl.speculative_round(*arguments)
    except IndexError as error:
        missing = f"IndexError ({error})"
    else:
        assert isinstance(done, Round), f"return Round(drafted, tokens), not {done!r}"
        return done
    pytest.fail(f"{missing}: does feed give a row for each drafted token and one more (last=len(drafted) + 1)?")


class WholeText(ScriptedDraft):
    """A draft that searches the text it is given, and so needs all of it."""

    def propose(self, text, gamma, rng):
        assert list(text) == [3, 0, 1], (
            f"propose was given {list(text)}, and the text is [3, 0, 1]: a draft gets the whole text, and sees itself "
            "what it has not read yet"
        )
        assert isinstance(rng, ScriptedRng), "propose was given another rng: all chance comes from the one of the round"
        assert gamma == 2, f"propose was asked for {gamma} tokens, and γ is 2"
        return super().propose(text, gamma, rng)


@pytest.mark.exercise("speculative_round")
def test_speculative_round_hands_the_draft_the_whole_text(impl):
    target, draft = TableReader(one_hot_rows(1, 2, 3, 0)), WholeText([2, 3])
    target.read, draft.length = [3, 0], 2
    a_round(impl, target, draft, [3, 0, 1], 2, ScriptedRng())


@pytest.mark.exercise("speculative_round")
def test_speculative_round_reads_the_target_once(impl):
    target = TableReader()
    a_round(impl, target, TableDraft(), [0], 3, ScriptedRng())
    assert target.passes == 1, f"the target ran {target.passes} passes; all drafted tokens are checked in one"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_reads_an_unread_text_and_the_draft_in_the_same_pass(impl):
    target = TableReader()
    a_round(impl, target, TableDraft(), [3, 0, 1, 2, 0], 2, ScriptedRng())
    assert target.passes == 1, (
        f"the target ran {target.passes} passes where it had read nothing of the text: what it has not read yet and "
        "the drafted tokens are read in one"
    )


@pytest.mark.exercise("speculative_round")
def test_speculative_round_truncates_the_target_after_a_rejection(impl):
    # After 0 the target is certain of 1, the draft proposes 2, 2: rejected at once, 1 comes out.
    target = TableReader(one_hot_rows(1, 2, 3, 0))
    done = a_round(impl, target, ScriptedDraft([2, 2]), [3, 0], 2, ScriptedRng())
    assert done.tokens != [2, 2], "Round(drafted, tokens): what was drafted comes first, and here the tokens do"
    assert done.tokens != [3], (
        "the target's rows are one too far: the first follows the text and decides about the first drafted token, so "
        "ask feed for a row for each drafted token and one more, last=len(drafted) + 1"
    )
    assert done.tokens == [1], f"the drafted 2 is rejected and 1 comes in its place; got {done.tokens}"
    assert len(target.read) >= 2, f"too much forgotten: the text [3, 0] has been read, and only {target.read} was kept"
    assert target.read[:2] == [3, 0], (
        f"the target skipped a part of the text: it has read {target.read}, and the text begins [3, 0]; feed "
        "text[target.length:] + drafted"
    )
    assert len(target.read) != 3, (
        f"one token too many is kept, {target.read} for the text [3, 0]: the new token 1 was drawn after the pass and "
        "nobody has read it, so len(text) + len(new) - 1 stay"
    )
    assert target.read == [3, 0], (
        f"stale cache: the target still holds {target.read[2:]} after the text [3, 0], so it goes on from a token that "
        "was rejected; truncate to len(text) + len(new) - 1"
    )


@pytest.mark.exercise("speculative_round")
def test_speculative_round_truncates_the_draft_after_a_rejection(impl):
    draft = TableDraft(one_hot_rows(2, 2, 2, 2))
    a_round(impl, TableReader(one_hot_rows(1, 2, 3, 0)), draft, [3, 0], 3, ScriptedRng())
    assert len(draft.read) >= 2, f"too much forgotten: the draft has read [3, 0], and only {draft.read} was kept"
    assert draft.read == [3, 0], f"stale cache in the draft: it still holds {draft.read[2:]}, which were rejected"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_keeps_what_both_have_read_when_all_is_kept(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    target, draft = TableReader(cycle), TableDraft(cycle)
    done = a_round(impl, target, draft, [0], 2, ScriptedRng())
    assert done.tokens == [1, 2, 3], f"the drafted 1, 2 are right and 3 is the bonus; got {done.tokens}"
    assert target.read == [0, 1, 2], (
        "all drafted tokens were kept, and nobody has read the bonus token: keep the text and both of them"
    )
    assert draft.read == [0, 1], "the draft has not read its own last token; keep what it has read"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_goes_on_from_where_the_last_one_stopped(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    target, draft, text = TableReader(cycle), TableDraft(cycle), [0]
    for _ in range(3):
        text += a_round(impl, target, draft, text, 2, ScriptedRng()).tokens
    assert text == [i % 4 for i in range(10)], f"0, 1, 2, 3 in turn was expected, three rounds gave {text}"
    assert target.fed == text[:-1], (
        f"the target was fed {target.fed} for the text {text}, a part of it twice: feed it what it has not read yet, "
        "text[target.length:], and what was drafted"
    )
    assert target.read == text[:-1], "between rounds the target has read all but the last token"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_with_gamma_zero_is_one_step_of_plain_decoding(impl):
    new = exact_distribution(lambda rng: tuple(a_round(impl, TableReader(), TableDraft(), [3, 1], 0, rng).tokens))
    assert len(new) > 1, f"the outcome is always {next(iter(new))}, whatever `rng` says: all chance comes from it"
    expected = {(token,): pytest.approx(TARGET_TABLE[1, token].item()) for token in range(4)}
    assert new == expected, f"γ = 0: one token from the target's distribution after the text; it gave {new}"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_enumerated_has_the_joint_distribution_of_the_target(impl):
    def run(rng):
        new = a_round(impl, TableReader(), TableDraft(), [0], 2, rng).tokens
        while len(new) < 3:  # a rejection ended the round; the target writes on alone
            new = [*new, rng.categorical(TARGET_TABLE[new[-1]])]
        return tuple(new)

    actual = exact_distribution(run)
    for text in product(range(4), repeat=3):
        rows = zip((0, *text[:2]), text, strict=True)
        expected = math.prod(TARGET_TABLE[before, token].item() for before, token in rows)
        assert abs(actual.get(text, 0.0) - expected) < 1e-9, (
            f"two drafted tokens, every outcome followed: text {text} comes out with probability "
            f"{actual.get(text, 0.0):.6f}, the target alone writes it with {expected:.6f}. `verify_draft` decides, "
            "with a row of the target for each drafted token and one more, and all chance comes from `rng`"
        )


@pytest.mark.exercise("speculative_round")
def test_speculative_round_takes_a_draft_that_guesses_less_than_gamma(impl):
    done = a_round(impl, TableReader(one_hot_rows(1, 2, 3, 0)), ScriptedDraft([1]), [0], 3, ScriptedRng())
    assert done.tokens == [1, 2], (
        f"one token drafted although γ = 3: 1 is kept, the bonus 2, got {done.tokens}. Ask for a row for each one made "
        "(and one), not for γ + 1"
    )


@pytest.mark.exercise("speculative_round")
def test_speculative_round_reports_what_was_drafted(impl):
    done = a_round(impl, TableReader(one_hot_rows(1, 2, 3, 0)), ScriptedDraft([2, 2]), [0], 2, ScriptedRng())
    assert list(done.drafted) == [2, 2], "Round(drafted, tokens): what was drafted comes first"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_refuses_a_negative_gamma(impl):
    assert_refuses("gamma", impl.speculative_round, TableReader(), TableDraft(), [0], -1, ScriptedRng())
