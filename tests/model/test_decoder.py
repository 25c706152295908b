"""Grades `model/decoder.py`: logits against a decoder by hand, generation on a scripted model counting passes."""

from types import ModuleType

import pytest
import torch
from by_hand import close, decoder_logits
from refusal import assert_refuses
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm.cache import KVCache, RaggedKVCache
from nanolm.checkpoint import to_hf_tensors
from nanolm.model import NanoLM, decoder
from nanolm.sampling import Rng, SamplingParams

GREEDY = SamplingParams(temperature=0.0)

# --- forward -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_scores_equal_a_decoder_by_hand(tied):
    model, tokens = tiny_model(tie_embeddings=tied), tokens_of(2, 6)
    expected = torch.stack([decoder_logits(to_hf_tensors(model), model.config, row) for row in tokens.tolist()])
    # 1e-11: three layers of sums in another order.
    assert close(model(tokens), expected, 1e-11), (
        "the layers together are not norm, attention, norm, feed-forward, norm"
    )


@pytest.mark.parametrize("last", [1, 3, 6])
@pytest.mark.parametrize("past", [0, 2])
def test_last_scores_equal_the_end_of_all_scores(last, past):
    model, tokens = tiny_model(), tokens_of(2, 6 + past)
    caches = [model.new_cache(2, 8), model.new_cache(2, 8)]
    for cache in caches[: 2 if past else 0]:
        model(tokens[:, :past], cache)
        cache.advance(past)
    new = tokens[:, past:]
    assert close(model(new, caches[0], last), model(new, caches[1])[:, -last:])


def test_last_as_a_tensor_scores_one_position_of_each_row():
    model, tokens = tiny_model(), tokens_of(3, 5)
    actual = model(tokens, last=torch.tensor([4, 0, 2]))
    assert actual.shape == (3, 1, 11), f"one position a row gives (B, 1, V), not {tuple(actual.shape)}"
    full = model(tokens)
    assert close(actual[:, 0], torch.stack([full[0, 4], full[1, 0], full[2, 2]])), "row b is scored at position last[b]"


@pytest.mark.parametrize("ragged", [False, True])
def test_forward_leaves_advancing_the_cache_to_the_caller(ragged):
    model = tiny_model()
    cache = model.new_cache(2, 8, ragged)
    first = model(tokens_of(2, 3), cache)
    assert cache.length == 0
    assert close(model(tokens_of(2, 3), cache), first), "a pass that nobody counted must leave no trace"


def test_rows_of_a_batch_do_not_see_each_other():
    model, tokens = tiny_model(), tokens_of(3, 5)
    assert close(model(tokens), torch.cat([model(row[None]) for row in tokens]))


def test_a_float32_model_is_as_near_to_float64_as_float32_allows():
    tokens = tokens_of(2, 12)
    exact, single = tiny_model()(tokens), tiny_model().float()(tokens)
    assert single.dtype == torch.float32
    # Logits here are some units large; float32 keeps 7 digits, and three layers of sums lose one or two of them.
    assert close(single.double(), exact, 1e-5 * exact.abs().max().item())


def test_tied_embeddings_are_one_matrix_and_untied_ones_two():
    tied, untied = NanoLM(tiny_config()), NanoLM(tiny_config(tie_embeddings=False))
    assert tied.head.weight is tied.embedding.weight
    assert untied.head.weight is not untied.embedding.weight
    # V·D = 11 · 20 more numbers without the tie.
    assert sum(p.numel() for p in untied.parameters()) - sum(p.numel() for p in tied.parameters()) == 220


def test_what_is_added_to_the_stream_starts_smaller():
    model = NanoLM(tiny_config(d_model=256, d_ff=256, n_layers=8))
    # 0.02 / √(2·8) = 0.005; 65,536 numbers and more, so the sample's deviation is within a few percent.
    for layer in model.layers:
        assert layer.feedforward.down.weight.std().item() == pytest.approx(0.005, rel=0.05)
        assert layer.feedforward.gate_up.weight.std().item() == pytest.approx(0.02, rel=0.05)


def test_new_cache_fits_the_model():
    model = tiny_model()
    plain, ragged = model.new_cache(2, 7), model.new_cache(2, 7, ragged=True)
    assert type(plain) is KVCache and type(ragged) is RaggedKVCache
    for cache in (plain, ragged):
        assert (cache.batch_size, cache.capacity, cache.keys[0].dtype) == (2, 7, torch.float64)


@pytest.mark.parametrize(("kind", "stored"), [("int8", torch.int8), ("float8", torch.float8_e4m3fn)])
@pytest.mark.parametrize("ragged", [False, True])
def test_new_cache_of_a_kind_stores_a_byte_a_number_and_returns_the_model_s_type(kind, stored, ragged):
    cache = tiny_model().new_cache(2, 7, ragged, cache_kind=kind)
    assert cache.keys[0].dtype == stored and isinstance(cache, RaggedKVCache) == ragged
    assert (cache.batch_size, cache.capacity) == (2, 7)
    heads = torch.ones(2, 2, 1, 6, dtype=torch.float64)
    assert {x.dtype for x in cache.update(0, heads, heads)} == {torch.float64}


def test_an_unknown_kind_of_cache_is_refused_with_those_that_there_are():
    message = "cache_kind is 'int4'; it must be one of float, int8, float8"
    with pytest.raises(ValueError, match=message):
        tiny_model().new_cache(cache_kind="int4")
    with pytest.raises(ValueError, match=message):
        tiny_model().generate([1, 2], 3, cache_kind="int4")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model(tokens_of(5)), r"tokens has shape \(5,\)"),
        (lambda model: model(tokens_of(1, 5), model.new_cache(2, 8)), r"tokens has shape \(1, 5\) .*2"),
        (lambda model: model(tokens_of(1, 5), last=0), r"last is 0"),
        (lambda model: model(tokens_of(1, 5), last=6), r"last is 6"),
    ],
    ids=["one row without its dimension", "one row for a cache of two", "last 0", "last beyond T"],
)
def test_forward_refuses_wrong_shapes_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(tiny_model())


# --- stream and generate, on a scripted model --------------------------------------------------------------------


class CountingCache:
    """A cache that holds nothing and knows how long each row is; only a ragged one counts each row by itself."""

    def __init__(self, batch_size: int, capacity: int | None, ragged: bool) -> None:
        self.lengths, self.capacity, self.ragged = [0] * batch_size, capacity, ragged

    @property
    def length(self) -> int:
        return max(self.lengths)

    def advance(self, n: int | list[int]) -> None:
        assert isinstance(n, int) or self.ragged, (
            "each row was counted by itself in a cache of equal rows: rows of unequal length need a ragged cache "
            "(`new_cache`, ragged=True)"
        )
        steps = [n] * len(self.lengths) if isinstance(n, int) else list(n)
        self.lengths = [length + step for length, step in zip(self.lengths, steps, strict=True)]


def next_token(token: int, position: int) -> int:
    """The script: what follows depends on the token *and* its position, so that a wrong offset changes the text."""
    return (3 * token + position) % 11


def scripted_text(prompt: list[int], n: int) -> list[int]:
    text = list(prompt)
    for _ in range(n):
        text.append(next_token(text[-1], len(text) - 1))
    return text[len(prompt) :]


def scripted(impl: ModuleType, **changes) -> NanoLM:
    """A model that follows the script and writes down every pass: (tokens, lengths before the pass)."""

    class Scripted(impl.NanoLM):
        def new_cache(self, batch_size=1, capacity=None, ragged=False, cache_kind="float"):
            self.cache, self.cache_kind = CountingCache(batch_size, capacity, ragged), cache_kind
            return self.cache

        def forward(self, tokens, cache=None, last=None):
            B, T = tokens.shape
            assert not self.passes or cache is not None, "a decode pass was run without the cache: hand it to each pass"
            starts = [0] * B if cache is None else list(cache.lengths)
            self.passes.append((tokens.tolist(), starts))
            rows = [[next_token(int(tokens[b, t]), starts[b] + t) for t in range(T)] for b in range(B)]
            logits = 5.0 * torch.nn.functional.one_hot(torch.tensor(rows), 11).double()
            self.scored.append(T if last is None else last if isinstance(last, int) else last[0].numel())
            if isinstance(last, torch.Tensor):
                return logits[torch.arange(B)[:, None], last.view(B, -1)]
            return logits if last is None else logits[:, -last:]

    model = Scripted(tiny_config(n_layers=1, **changes))
    model.passes, model.scored = [], []
    return model


def positions_run(model) -> list[int]:
    return [len(tokens[0]) for tokens, _ in model.passes]


def steps_of(stream, n_rows=1) -> list[list[int | None]]:
    """All that a stream yields, each step a list with one token a row."""
    steps = []
    for step in stream:
        kind = type(step).__name__
        assert kind == "list", f"a step is a list with one token a row, also for a single row; not {kind}"
        assert len(step) == n_rows, (
            f"{len(step)} token{'s' * (len(step) != 1)} came for {n_rows} row{'s' * (n_rows != 1)}: one for each row"
        )
        assert not any(isinstance(token, torch.Tensor) for token in step), (
            "tokens must be Python ints (.tolist()), not tensors without a dimension"
        )
        steps.append(step)
    return steps


PROMPT = [1, 2, 3, 4, 5, 6, 7, 8]
END_IS_YIELDED = "the end token itself is still yielded: it is part of the text"


@pytest.mark.exercise("NanoLM.stream")
@pytest.mark.parametrize(
    ("n", "with_cache", "without", "all_read"),
    # n tokens after a prompt of 8 take n passes. With the cache 8 + (n - 1) positions: the last token is never read.
    # Without it 8 + 9 + … + (8 + n - 1): 8·16 + 120 = 248, and 8 + 9 + 10 = 27.
    [(16, 23, 248, 24), (3, 10, 27, 11)],
)
def test_stream_runs_the_prompt_once_and_then_one_position_a_pass(impl, n, with_cache, without, all_read):
    model = scripted(impl)
    list(model.stream([PROMPT], n))
    total = sum(positions_run(model))
    assert total != without, f"{without} positions were run: the whole text again each pass, as if there were no cache"
    assert total != all_read, f"{all_read} positions were run: the last token was read too, and nobody uses its logits"
    assert positions_run(model) == [8] + [1] * (n - 1), (
        f"passes of {positions_run(model)} positions: prefill takes the 8 tokens of the prompt in one pass, then each "
        "decode pass takes one"
    )
    assert total == with_cache


@pytest.mark.exercise("NanoLM.stream")
def test_stream_without_sampling_takes_the_largest_logits(impl):
    class NoDice:
        def categorical(self, probs):
            pytest.fail("no sampling means greedy, temperature 0; `SamplingParams()` has temperature 1", pytrace=False)

    assert len(steps_of(scripted(impl).stream([PROMPT], 3, None, NoDice()))) == 3


@pytest.mark.exercise("NanoLM.stream")
def test_stream_advances_the_cache_by_what_each_pass_read(impl):
    model = scripted(impl)
    list(model.stream([PROMPT], 4))
    starts = [lengths[0] for _, lengths in model.passes]
    assert starts != [0, 0, 0, 0], "the cache is never advanced: each pass overwrites the one before"
    assert starts != [0, 0, 1, 2], "the prefill was not counted: the first decode pass overwrites the prompt"
    assert starts != [0, 1, 2, 3], "the prefill counts as 8 positions, not as one"
    assert starts == [0, 8, 9, 10], f"the passes started at positions {starts}; after the prompt of 8 come 8, 9, 10"


@pytest.mark.exercise("NanoLM.stream")
def test_stream_reads_each_new_token_once(impl):
    model = scripted(impl)
    text = [step[0] for step in steps_of(model.stream([PROMPT], 5))]
    read = [token for tokens, _ in model.passes for token in tokens[0]]
    assert read == PROMPT + text[:-1], f"read {read}: the prompt, then each new token but the last, once"


@pytest.mark.exercise("NanoLM.stream")
def test_stream_writes_what_the_model_says(impl):
    text = [step[0] for step in steps_of(scripted(impl).stream([PROMPT], 6))]
    assert text[:1] != scripted_text(PROMPT[:-1], 1), (
        "the first token comes from the logits after the prompt's *last* token"
    )
    assert text == scripted_text(PROMPT, 6), (
        f"{text} came out, the model says {scripted_text(PROMPT, 6)}: does each pass begin where the last one ended?"
    )


@pytest.mark.exercise("NanoLM.stream")
def test_stream_yields_a_token_before_it_runs_the_next_pass(impl):
    model = scripted(impl)
    stream = model.stream([PROMPT], 5)
    assert not isinstance(stream, list), "stream must yield: it returned a list"
    for passes in (1, 2, 3):
        next(stream)
        assert len(model.passes) == passes, (
            f"{len(model.passes)} passes were run before token {passes} came out: streaming means yield inside the loop"
        )


@pytest.mark.exercise("NanoLM.stream")
def test_stream_takes_rows_of_unequal_length(impl):
    prompts = [[1, 2, 3, 4, 5], [7], [10, 4, 2]]
    model = scripted(impl)
    columns = steps_of(model.stream(prompts, 4), n_rows=3)
    texts = [list(column) for column in zip(*columns, strict=True)]
    expected = [scripted_text(prompt, 4) for prompt in prompts]
    assert positions_run(model) == [5, 1, 1, 1], "one prefill pass serves all rows, as wide as the longest prompt"
    assert texts[0] == expected[0], (
        "the longest row is wrong already, which no padding touches: mend one row alone first"
    )
    assert [starts for _, starts in model.passes][1] != [5, 5, 5], (
        "every row was counted as long as the longest: padding was cached as if it were text "
        "(advance by each row's own length)"
    )
    first = [text[0] for text in texts]
    assert first == [text[0] for text in expected], (
        f"first tokens {first}: a short row's come from its own last token, not from the padding behind it"
    )
    assert texts == expected, f"{texts} came out, the model says {expected}"


@pytest.mark.exercise("NanoLM.stream")
def test_stream_stops_after_the_end_token(impl):
    # After 1, 2, 3 the script writes 0, 3, 2, 0, …; the end token 2 comes third and is part of the text.
    assert scripted_text([1, 2, 3], 4) == [0, 3, 2, 0]
    model = scripted(impl, eos_token_ids=(2,))
    text = [step[0] for step in steps_of(model.stream([[1, 2, 3]], 9))]
    assert text[:2] == [0, 3], f"{text[:2]} came before any end, the model says [0, 3]: mend the text first"
    assert text not in ([0, 3], [0, 3, None]), END_IS_YIELDED
    assert text[:4] != [0, 3, 2, 0], "the end token was not noticed: the text went on behind it"
    assert text == [0, 3, 2], f"{text}: nothing comes after the end token, not even None, once every row has ended"
    assert len(model.passes) == 3, "a pass was run after the text had ended"


@pytest.mark.exercise("NanoLM.stream")
@pytest.mark.parametrize(
    ("end_tokens", "length"), [(None, 3), ((), 6), ((0,), 1), ((5, 3), 2)], ids=["the model's", "none", "one", "two"]
)
def test_stream_takes_its_end_tokens_from_the_request_first(impl, end_tokens, length):
    model = scripted(impl, eos_token_ids=(2,))
    sampling = SamplingParams(temperature=0.0, end_tokens=end_tokens)
    text = [step[0] for step in steps_of(model.stream([[1, 2, 3]], 6, sampling))]
    right = scripted_text([1, 2, 3], 6)[:length]
    assert text[:length] == right or right[: len(text)] == text, (
        f"{text} came out, the model says {right}: mend the text without end tokens first"
    )
    assert text != right[:-1] or length == 6, END_IS_YIELDED
    assert text == right, "end_tokens of the request replace the model's own; () means none, None the model's"


@pytest.mark.exercise("NanoLM.stream")
def test_stream_gives_none_for_rows_that_have_ended(impl):
    # Row 0 writes 0, 3, 2 (ends); row 1, after 4, writes 1, 4, 3, 1, 7 and has no 2 in it.
    assert scripted_text([4], 5) == [1, 4, 3, 1, 7]
    model = scripted(impl, eos_token_ids=(2,))
    steps = steps_of(model.stream([[1, 2, 3], [4]], 5), n_rows=2)
    assert [step[0] for step in steps] != [0, 3, None, None, None], END_IS_YIELDED
    assert [step[1] for step in steps] == [1, 4, 3, 1, 7], "one row's end must not end, or change, another row"
    assert [step[0] for step in steps] == [0, 3, 2, None, None], "after its end token a row yields None"
    assert [len(tokens) for tokens, _ in model.passes] == [2] * 5, "a row that has ended is still run with the others"


@pytest.mark.exercise("NanoLM.stream")
def test_stream_of_no_new_tokens_yields_nothing(impl):
    assert list(scripted(impl).stream([PROMPT], 0)) == [], "no token was asked for, and something came out"


@pytest.mark.exercise("NanoLM.stream")
@pytest.mark.parametrize("prompts", [[PROMPT], [[1, 2, 3, 4, 5], [7]]], ids=["one row", "rows of unequal length"])
def test_stream_asks_the_prefill_for_one_position_a_row(impl, prompts):
    model = scripted(impl)
    list(model.stream(prompts, 3))
    assert model.scored[0] == 1, (
        f"the prefill made logits of {model.scored[0]} positions a row, of which one is used, and the head costs as "
        "much as layers do: hand `last` over"
    )


@pytest.mark.exercise("NanoLM.stream")
def test_stream_makes_a_cache_of_the_kind_it_is_asked_for(impl):
    model = scripted(impl)
    list(model.stream([PROMPT], 2, None, None, "int8"))
    assert model.cache_kind == "int8", f"`cache_kind` was not handed to `new_cache`: int8 became {model.cache_kind}"


@pytest.mark.exercise("NanoLM.stream")
def test_stream_makes_a_cache_with_room_for_the_longest_prompt_and_the_text(impl):
    model = scripted(impl)
    list(model.stream([[1, 2, 3, 4, 5], [7]], 4))
    capacity = model.cache.capacity  # None is room for the whole context
    assert capacity is None or capacity >= 8, (
        f"a cache of {capacity} positions: the longest prompt has 5, and 3 of the 4 new tokens are run too"
    )


@pytest.mark.exercise("NanoLM.stream")
def test_stream_makes_a_generator_of_its_own_where_it_is_given_none(impl):
    try:
        steps = steps_of(scripted(impl).stream([PROMPT], 3, SamplingParams(temperature=1.0)))
    except AttributeError as error:
        if "NoneType" not in str(error):
            raise
        pytest.fail(f"rng is None, which means an unseeded generator: make one, Rng() ({error})")
    assert len(steps) == 3


@pytest.mark.exercise("NanoLM.stream")
def test_stream_draws_from_the_generator_it_is_given(impl):
    class CertainRng:
        def categorical(self, probs):
            drawn.append(len(probs))
            return 6

    drawn = []
    steps = steps_of(scripted(impl).stream([PROMPT], 3, SamplingParams(temperature=1.0), CertainRng()))
    assert steps == [[6], [6], [6]] and drawn == [11, 11, 11], (
        f"{steps}: at temperature 1 each token is one categorical of `rng` over the whole vocabulary"
    )


def test_generate_returns_the_new_tokens_only():
    text = scripted(decoder).generate(PROMPT, 6)
    assert text != PROMPT + scripted_text(PROMPT, 6), "the prompt came back too: return the new tokens only"
    assert text == scripted_text(PROMPT, 6)


def test_generate_is_prefill_then_decode():
    # 8 positions of prompt, then 15 of the 16 new tokens: 23, against 8 + 9 + … + 23 = 248 without a cache.
    model = scripted(decoder)
    model.generate(PROMPT, 16)
    assert sum(positions_run(model)) == 23, f"{sum(positions_run(model))} positions were run, in {positions_run(model)}"


def test_generate_gives_a_list_for_one_prompt_and_lists_for_a_batch():
    one, batch = scripted(decoder).generate([5, 6], 2), scripted(decoder).generate([[5, 6]], 2)
    assert one == scripted_text([5, 6], 2), f"one sequence gives one list of ids, not {one}"
    assert batch == [scripted_text([5, 6], 2)], f"a batch of one gives a list with one list, not {batch}"


def test_generate_leaves_out_what_comes_after_a_row_s_end():
    texts = scripted(decoder, eos_token_ids=(2,)).generate([[1, 2, 3], [4]], 5)
    assert None not in texts[0], "None means that a row has ended; it is no token"
    assert texts == [[0, 3, 2], [1, 4, 3, 1, 7]]


def test_generate_hands_each_step_to_on_token_as_it_comes():
    model, steps = scripted(decoder, eos_token_ids=(2,)), []
    model.generate([[1, 2, 3], [4]], 5, on_token=lambda step: steps.append((len(model.passes), list(step))))
    assert [step for _, step in steps] == [[0, 1], [3, 4], [2, 3], [None, 1], [None, 7]]
    assert [passes for passes, _ in steps] == [1, 2, 3, 4, 5], "on_token is called after every pass, not at the end"


def test_generate_of_no_new_tokens_is_empty():
    assert scripted(decoder).generate(PROMPT, 0) == []
    assert scripted(decoder).generate([PROMPT, PROMPT], 0) == [[], []]


BAD_REQUESTS = [
    ([], 3, "prompt", r"prompts is empty"),
    ([[1, 2], []], 3, "prompt", r"prompt 1 is empty"),
    ([1, 2], -1, "max_new_tokens", r"max_new_tokens is -1; it must be a whole number, 0 or more"),
    ([1] * 60, 5, "max_new_tokens", r"prompt 0 has 60 tokens and max_new_tokens is 5; .* at most 64"),
    ([1, 11], 2, "token", r"prompt 0 holds token 11; ids run from 0 to 10"),
    ([[1], [-1, 3]], 2, "token", r"prompt 1 holds token -1; ids run from 0 to 10"),
]


@pytest.mark.parametrize(("prompt", "n", "names"), [case[:3] for case in BAD_REQUESTS])
def test_generate_refuses_a_bad_request(prompt, n, names):
    assert_refuses(names, scripted(decoder).generate, prompt, n)


@pytest.mark.exercise("NanoLM.stream")
@pytest.mark.parametrize(("prompt", "n", "names"), [case[:3] for case in BAD_REQUESTS])
def test_stream_refuses_a_bad_request(impl, prompt, n, names):
    prompts = prompt if not prompt or isinstance(prompt[0], list) else [prompt]
    assert_refuses(names, lambda *request: list(scripted(impl).stream(*request)), prompts, n)


@pytest.mark.parametrize(("prompt", "n", "_", "message"), BAD_REQUESTS)
def test_a_bad_request_is_refused_with_its_name_and_what_is_allowed(prompt, n, _, message):
    with pytest.raises(ValueError, match=message):
        tiny_model().generate(prompt, n)


def test_generate_may_fill_the_context_to_the_last_position():
    assert len(scripted(decoder).generate([1] * 60, 4)) == 4


# --- generate, on a real model -----------------------------------------------------------------------------------


def full_pass_text(model, prompt, n, pick):
    """n tokens, each picked from a fresh pass of the decoder by hand over the whole text so far."""
    tensors, text = to_hf_tensors(model), list(prompt)
    for _ in range(n):
        text.append(pick(decoder_logits(tensors, model.config, text)[-1]))
    return text[len(prompt) :]


def test_greedy_text_equals_the_largest_score_of_fresh_full_passes():
    model, prompt = tiny_model(), tokens_of(5).tolist()
    assert model.generate(prompt, 8) == full_pass_text(model, prompt, 8, lambda scores: int(scores.argmax()))


def test_sampled_text_equals_draws_from_fresh_full_passes():
    model, prompt, rng = tiny_model(), tokens_of(5).tolist(), Rng(seed=3)
    expected = full_pass_text(model, prompt, 8, lambda s: rng.categorical(torch.softmax(s / 1.5, dim=-1)))
    assert model.generate(prompt, 8, SamplingParams(temperature=1.5), Rng(seed=3)) == expected


def test_sampled_text_repeats_with_the_seed():
    model, sampling = tiny_model(), SamplingParams(temperature=2.0)
    texts = [model.generate([1, 2], 20, sampling, Rng(seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1], "the same seed gave two texts"
    assert texts[0] != texts[2], "two seeds gave one text: is the seed used?"


def test_a_stream_and_a_generation_are_the_same_text():
    model, prompts, sampling = tiny_model(), [[1, 2, 3], [4]], SamplingParams(temperature=1.0, top_k=5, top_p=0.9)
    streamed = list(model.stream(prompts, 7, sampling, Rng(seed=5)))
    texts = model.generate(prompts, 7, sampling, Rng(seed=5))
    assert [list(row) for row in zip(*streamed, strict=True)] == texts


def test_rows_of_unequal_length_that_end_early_equal_each_row_alone():
    model = tiny_model(max_positions=64)
    prompts = [tokens_of(n, seed=s).tolist() for n, s in ((9, 1), (2, 2), (5, 3), (1, 4))]
    sampling = SamplingParams(temperature=0.0, end_tokens=(model.generate(prompts[1], 3)[2],))
    alone = [model.generate(prompt, 12, sampling) for prompt in prompts]
    assert len({len(text) for text in alone}) > 1, "the rows must end at different steps for this test to mean anything"
    assert model.generate(prompts, 12, sampling) == alone, "a row's text depends on the rows beside it"


def test_generation_leaves_no_gradient_and_no_inference_mode_behind():
    model = tiny_model().requires_grad_(True)
    for _ in model.stream([[1, 2]], 3):
        assert not torch.is_inference_mode_enabled(), "inference mode leaks out of a stream into the caller's loop"
    model(tokens_of(1, 3)).sum().backward()
    assert model.embedding.weight.grad is not None


def test_positions_are_where_the_words_are():
    # Positions 1 and 3 see the same mixture of tokens 3 and 5: only their positions tell them apart.
    scores = tiny_model()(torch.tensor([[3, 5, 3, 5]]))[0]
    assert not close(scores[1], scores[3], 1e-3), "3 5 and 3 5 3 5 give equal logits: positions have no effect"


def test_one_layer_of_zero_weights_leaves_the_stream_as_it_is():
    model = tiny_model(n_layers=1)
    for name, weight in model.named_parameters():
        if name.endswith(("attention.out.weight", "feedforward.down.weight")):
            weight.zero_()
    x = model.embedding.weight
    normed = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * model.norm.weight
    assert close(model(torch.arange(11)[None])[0], normed @ x.T), "what a layer computes is *added* to its input"
