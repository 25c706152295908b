"""What the functions of the planning weeks say about this load on this machine, before anything is served.

A student's own functions are asked and the reference's as well, each in its process; the report shows both where they
differ. No goal depends on a student's.
"""

from collections.abc import Callable
from typing import Any

# Rooms, not names: what is asked of a room is looked up when it is called, and so is what was assembled.
from nanolm import attention, budget, paging, workload

from .goals import Given
from .machine import SIXTEEN
from .settings import BLOCK_SIZE, Choices


class Plan:
    """The arithmetic of the lines.

    Args:
        config: the model's.
        cache_bytes: memory for keys and values.
    """

    def __init__(self, given: Given, choices: Choices, config: Any, trace: workload.Trace, cache_bytes: int) -> None:
        sizes = ("n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "vocab_size", "tie_embeddings")
        mixture = (config.n_experts, config.experts_per_token, config.d_ff)
        experts = budget.Experts(*mixture) if config.n_experts else None
        self.shape = budget.ModelShape("served", **{name: getattr(config, name) for name in sizes}, experts=experts)
        self.given, self.choices, self.trace, self.cache_bytes = given, choices, trace, cache_bytes
        # A code has a part of a scale of 16 bits besides, which all numbers of a head and position share.
        self.kv_bits = 32 if choices.cache_kind == "float" else 8 + 16 / config.head_dim
        self.n_params, machine = self.shape.n_multiplied_params, given.machine
        self.read_bytes = 4 * self.n_params
        # The machine as a chip that would take just as long: its pass of one all reading, its prompt all arithmetic.
        self.chip = budget.Hardware(
            name=machine.processor or "this machine",
            memory_bytes=cache_bytes,
            bandwidth_bytes_per_second=self.read_bytes / machine.one,
            peak_flops_per_second=2 * self.n_params / machine.prompt_token,
            dollars_per_hour=given.load.dollars_per_hour,
        )

    def lines(self) -> list[tuple[str, str]]:
        """Return (what, value) of every line; a function that is not written, or fails, says so as the value."""
        lines: list[tuple[str, Callable[[], str]]] = [
            ("weights in memory", self.weights),
            ("one position in the cache", self.position),
            ("average requests that the cache holds", self.concurrent),
            ("a pass of sixteen by the roofline", self.pass_of_sixteen),
            ("what bounds it", self.bound),
            ("batch from which arithmetic counts", self.critical),
            ("batch whose caches weigh as much as the weights", self.crossover),
            ("an average prompt alone, by the roofline", self.prompt_alone),
            ("batch within the goal of a next token, at best", self.largest_batch),
            ("what sixteen at a time cost, prompts left out", self.price_of_sixteen),
            ("an average answer, if the goals are just met", self.whole_answer),
            ("prompt tokens that an earlier prompt begins with", self.shared),
            ("slots at work, if a pass takes as sixteen do", self.utilisation),
            ("scores of the longest prompt, which tiles never store", self.scores),
        ]
        return [(what, _value(value)) for what, value in lines]

    def weights(self) -> str:
        n_params, floats, bits = self.shape.n_params, 0, float(self.choices.weight_bits)
        if bits != 32:
            # The codes of a row share a scale of 16 bits; embedding and head stay floats.
            bits += 16 / self.shape.d_model
            floats = self.shape.vocab_size * self.shape.d_model * (1 if self.shape.tie_embeddings else 2)
        n_bytes = budget.weight_bytes(n_params - floats, bits) + 4 * floats
        return f"{n_bytes / 1e6:.2f} MB"

    def position(self) -> str:
        return f"{budget.kv_bytes_per_token(self.shape, self.kv_bits):,} B"

    def concurrent(self) -> str:
        # The cache has memory of its own: one byte is the least "weights" that the function takes.
        n = budget.max_concurrent_requests(self.cache_bytes, 1, self._request_bytes())
        return f"{n}, of {round(self.given.n_prompt + self.given.n_answer)} positions each"

    def pass_of_sixteen(self) -> str:
        seconds = budget.decode_step_time(SIXTEEN, self.n_params, self.read_bytes, 0, self.chip)
        return f"{1e3 * seconds:.3g} ms; measured {1e3 * self.given.machine.sixteen:.3g}"

    def bound(self) -> str:
        intensity = budget.arithmetic_intensity(SIXTEEN, self.n_params, self.read_bytes)
        ridge = budget.ridge_point(self.chip)
        return f"{budget.bottleneck(intensity, self.chip)}: {intensity:.3g} operations a byte, ridge {ridge:.3g}"

    def critical(self) -> str:
        return f"{budget.critical_batch(self.chip, 32)}"

    def crossover(self) -> str:
        return f"{budget.crossover_batch(self.read_bytes, self._request_bytes())}"

    def _request_bytes(self) -> int:
        tokens = round(self.given.n_prompt + self.given.n_answer)
        return budget.kv_cache_bytes(self.shape, tokens, 1, self.kv_bits)

    def prompt_alone(self) -> str:
        n = round(self.given.n_prompt)
        sizes = self.shape.n_layers, self.shape.n_heads, self.shape.head_dim
        share = budget.attention_share_of_prefill(n, self.n_params, *sizes)
        seconds = budget.prefill_seconds(n, self.n_params, self.read_bytes, self.chip)
        return f"{1e3 * seconds:.3g} ms for {n} tokens, and {share:.1%} for attention"

    def largest_batch(self) -> str:
        goal = self.given.goals.tpot_seconds
        assert goal is not None  # there is always one
        return f"{budget.max_batch_for_tpot(goal, self.n_params, self.read_bytes, 0, self.chip)}"

    def price_of_sixteen(self) -> str:
        seconds, an_hour = self.given.machine.sixteen, self.given.load.dollars_per_hour
        rate = budget.tokens_per_second(seconds, SIXTEEN)
        return f"{budget.cost_per_million(seconds, SIXTEEN, an_hour):.3f} $ a million, at {rate:,.0f} tokens/s"

    def whole_answer(self) -> str:
        goals, n = self.given.goals, round(self.given.n_answer)
        assert goals.tpot_seconds is not None
        seconds = budget.end_to_end_seconds(goals.ttft_seconds or 0.0, goals.tpot_seconds, n)
        return f"{seconds:.2f} s for {n} tokens" + ("" if goals.ttft_seconds else ", once it has begun")

    def shared(self) -> str:
        prompts, n_shared = [arrival.prompt or () for arrival in self.trace], 0
        for i, prompt in enumerate(prompts):
            known = [paging.reusable_prefix_tokens(earlier, prompt, BLOCK_SIZE) for earlier in prompts[:i]]
            n_shared += max(known, default=0)
        return f"{n_shared:,} of {sum(map(len, prompts)):,}, in whole blocks"

    def utilisation(self) -> str:
        steps = self.trace.steps(self.given.machine.sixteen)
        needs = [arrival.n_output_tokens for arrival in self.trace]
        run = workload.simulate_continuous_batching(needs, self.choices.slots, steps)
        return f"{run.utilisation:.0%} of {self.choices.slots}"

    def scores(self) -> str:
        longest = max(arrival.n_prompt_tokens for arrival in self.trace)
        return f"{attention.score_matrix_bytes(longest, self.shape.n_heads, bits=32) / 1e6:.2f} MB a layer"


def _value(value: Callable[[], str]) -> str:
    try:
        return value()
    except Exception as error:  # a student's own mistake: a finding, not the end
        return " ".join(f"{type(error).__name__}: {error}".split())[:90]
