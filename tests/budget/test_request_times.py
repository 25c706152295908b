"""Grades `roofline`: attention's share of a prefill, and what a request waits. Figures are derived by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses

law = settings(max_examples=50)
seconds = st.floats(1e-6, 1e3)


# --- attention_share_of_prefill ----------------------------------------------------------------------------------

SHARE = 4 * 32 * 4096 * 512.5 / 15e9  # 1.79 %


@pytest.mark.exercise("attention_share_of_prefill")
def test_attention_share_of_prefill_is_about_2_percent_for_1024_tokens(impl):
    # 4 · 32 layers · 4,096 · 512.5 positions seen on average = 2.687·10⁸, against 2 · 7.5·10⁹ a position: 1.79 %.
    wrong = {
        "causal mask forgotten: a position sees half the prompt on average, not all 1,024": SHARE * 1024 / 512.5,
        "only the scores, or only the values, were counted": SHARE / 2,
        "factor 2 forgotten under the line: a weight is multiplied and added, 2·n_params a position": SHARE * 2,
        "half a position short: 1 to 1,024 positions are 512.5 on average, not 512": SHARE * 512 / 512.5,
        "current token left out: position t sees t positions, itself included": SHARE * 511.5 / 512.5,
        "heads forgotten, or layers forgotten: each of the 32 layers has 32 query heads": SHARE / 32,
        "head_dim forgotten: a score is a sum over 128 numbers": SHARE / 128,
        "a percentage: return the fraction, 0.018": SHARE * 100,
        "a share of all operations, attention's included: divide by those with the weights alone": SHARE / (1 + SHARE),
        "operations of a whole prompt over those of one position: both must be of one position, or both of all": SHARE
        * 1024,
        "upside down: attention's operations over the weights'": 1 / SHARE,
    }
    got = impl.attention_share_of_prefill(1024, 7.5e9, n_layers=32, n_heads=32, head_dim=128)
    assert_number(got, SHARE, wrong, "4 · 32 · 4,096 · 512.5 operations against 2 · 7.5·10⁹")


@pytest.mark.exercise("attention_share_of_prefill")
def test_attention_share_of_prefill_counts_every_layer_and_every_head(impl):
    # 3 layers, 5 heads of 7 numbers, 9 positions that see 5 on average: 4 · 3 · 5 · 7 · 5 = 2,100 over 2 · 1,000.
    wrong = {
        "layers forgotten: each of the 3 layers attends": 1.05 / 3,
        "heads forgotten: all 5 query heads compute scores": 1.05 / 5,
        "head_dim forgotten: a score is a sum over its numbers": 1.05 / 7,
        "the result was cut at 1: attention may cost more than the weights": 1.0,
    }
    got = impl.attention_share_of_prefill(9, 1000, n_layers=3, n_heads=5, head_dim=7)
    assert_number(got, 1.05, wrong, "4 · 3 · 5 · 7 · 5 operations against 2 · 1,000")


@pytest.mark.exercise("attention_share_of_prefill")
def test_attention_share_of_prefill_counts_the_current_token(impl):
    # A prompt of one token sees itself: 4 · 1 · 2 · 8 · 1 operations against 2 · 64.
    wrong = {
        "current token left out: position t sees t positions, itself included": 0.0,
        "half a position short: a prompt of one token sees one": 0.25,
    }
    got = impl.attention_share_of_prefill(1, 64, n_layers=1, n_heads=2, head_dim=8)
    assert_number(got, 0.5, wrong, "4 · 1 · 2 · 8 · 1 operations against 2 · 64")


@pytest.mark.exercise("attention_share_of_prefill")
@law
@given(n_tokens=st.integers(1, 10**5), n_params=st.floats(1e6, 1e12), sizes=st.tuples(*[st.integers(1, 200)] * 3))
def test_attention_share_of_prefill_grows_in_step_with_each_size_and_with_tokens_seen(impl, n_tokens, n_params, sizes):
    layers, heads, head_dim = sizes
    once = impl.attention_share_of_prefill(n_tokens, n_params, layers, heads, head_dim)
    for more in ((2 * layers, heads, head_dim), (layers, 2 * heads, head_dim), (layers, heads, 2 * head_dim)):
        twice = impl.attention_share_of_prefill(n_tokens, n_params, *more)
        assert twice == pytest.approx(2 * once), f"{sizes} doubled to {more} doubles the share"
    half = impl.attention_share_of_prefill(n_tokens, 2 * n_params, layers, heads, head_dim)
    assert half == pytest.approx(once / 2), "twice the parameters, half the share"
    # 2T + 1 positions see T + 1 on average, twice the (T + 1) / 2 of T positions.
    longer = impl.attention_share_of_prefill(2 * n_tokens + 1, n_params, layers, heads, head_dim)
    assert longer == pytest.approx(2 * once), f"{2 * n_tokens + 1} positions see twice as many as {n_tokens} on average"


@pytest.mark.exercise("attention_share_of_prefill")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((0, 7.5e9, 32, 32, 128), "n_prompt_tokens"),
        ((0.5, 7.5e9, 32, 32, 128), "n_prompt_tokens"),
        ((1024, 0, 32, 32, 128), "n_params"),
        ((1024, 7.5e9, 0, 32, 128), "n_layers"),
        ((1024, 7.5e9, 32, 0, 128), "n_heads"),
        ((1024, 7.5e9, 32, 32, 0), "head_dim"),
    ],
)
def test_attention_share_of_prefill_refuses_what_is_no_model(impl, arguments, blamed):
    assert_refuses(blamed, impl.attention_share_of_prefill, *arguments)


# --- end_to_end_seconds ------------------------------------------------------------------------------------------


@pytest.mark.exercise("end_to_end_seconds")
def test_end_to_end_seconds_waits_once_for_the_first_token_and_then_for_each_other(impl):
    # 0.2 s + 299 · 25 ms = 7.675 s.
    wrong = {
        "one wait too many: the first token is already there after TTFT, and 299 others follow": 7.7,
        "one wait too few: after the first token 299 others follow": 7.65,
        "the wait for the first token is left out: the others come after it": 7.475,
        "only the wait for the first token was counted": 0.2,
        "TTFT is waited once, not for every token": 300 * 0.2 + 299 * 0.025,
        "the two times are swapped: TTFT is waited once, TPOT for each other token": 0.025 + 299 * 0.2,
    }
    assert_number(impl.end_to_end_seconds(0.200, 0.025, 300), 7.675, wrong, "0.2 s + 299 · 25 ms")
    wrong = {"one wait too many: one token, so TTFT and nothing more": 0.225}
    assert_number(impl.end_to_end_seconds(0.200, 0.025, 1), 0.2, wrong, "one token: TTFT and nothing more")


@pytest.mark.exercise("end_to_end_seconds")
@pytest.mark.parametrize(("ttft", "tpot", "seconds"), [(0.0, 0.025, 0.05), (0.2, 0.0, 0.2), (0, 0, 0)])
def test_end_to_end_seconds_takes_a_time_of_0(impl, ttft, tpot, seconds):
    try:
        got = impl.end_to_end_seconds(ttft, tpot, 3)
    except ValueError as error:
        pytest.fail(f"a time of 0 is allowed, only one below 0 is not; it was refused: {error}")
    assert got == pytest.approx(seconds), f"{ttft} s + 2 · {tpot} s are {seconds} s, not {got}"


@pytest.mark.exercise("end_to_end_seconds")
@law
@given(ttft=seconds, tpot=seconds, n_tokens=st.integers(1, 5000))
def test_end_to_end_seconds_grow_by_one_wait_for_each_token_more(impl, ttft, tpot, n_tokens):
    now, then = (impl.end_to_end_seconds(ttft, tpot, n) for n in (n_tokens, n_tokens + 1))
    assert then - now == pytest.approx(tpot, rel=1e-3, abs=1e-6), "one token more, one TPOT more"
    later = impl.end_to_end_seconds(ttft + 1, tpot, n_tokens)
    assert later - now == pytest.approx(1), "a first token that comes a second later ends all a second later"


@pytest.mark.exercise("end_to_end_seconds")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((-0.1, 0.025, 300), "ttft_seconds"),
        ((0.2, -0.025, 300), "tpot_seconds"),
        ((0.2, 0.025, 0), "n_output_tokens"),
        ((0.2, 0.025, 2.5), "n_output_tokens"),
    ],
)
def test_end_to_end_seconds_refuses_what_is_no_request(impl, arguments, blamed):
    assert_refuses(blamed, impl.end_to_end_seconds, *arguments)


# --- tokens_per_second -------------------------------------------------------------------------------------------


@pytest.mark.exercise("tokens_per_second")
def test_tokens_per_second_count_one_token_for_each_sequence_and_step(impl):
    # 1 / 25 ms = 40. A batch of 32 in 15.05 ms: 2,126; one sequence in 5.115 ms: 195.5. Caches alone, 0.3205 ms a
    # sequence: 3,120, the ceiling that a growing batch approaches.
    step = 15.0507e-3
    wrong = {
        "batch forgotten: each of the 32 sequences gets a token": 1 / step,
        "the batch was divided by: it takes part in one step and gets 32 tokens": 1 / step / 32,
        "upside down: tokens a second, not seconds a token": step / 32,
        "the step's seconds are ignored": 32.0,
        "rounded down: the result is a quotient": 2126.0,
        "one sequence too many: the batch has 32": 33 / step,
        "tokens a millisecond: a second has 1,000 of them": 32 / step / 1000,
    }
    assert_number(impl.tokens_per_second(step, 32), 32 / step, wrong, "32 tokens in 15.0507 ms")
    # Without a batch_size it is a single user's.
    assert_number(impl.tokens_per_second(0.025), 40.0, {}, "1 token in 0.025 s")
    assert_number(impl.tokens_per_second(5.1146e-3), 1 / 5.1146e-3, {}, "1 token in 5.1146 ms")
    assert impl.tokens_per_second(0.32052e-3) == pytest.approx(3120, abs=1)


@pytest.mark.exercise("tokens_per_second")
@law
@given(step=seconds, batch_size=st.integers(1, 5000))
def test_tokens_per_second_times_the_seconds_of_a_step_are_the_batch(impl, step, batch_size):
    assert impl.tokens_per_second(step, batch_size) * step == pytest.approx(batch_size)


@pytest.mark.exercise("tokens_per_second")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [((0.0,), "step_seconds"), ((-0.01,), "step_seconds"), ((0.01, 0), "batch_size"), ((0.01, 1.5), "batch_size")],
)
def test_tokens_per_second_refuses_what_is_no_step(impl, arguments, blamed):
    assert_refuses(blamed, impl.tokens_per_second, *arguments)
