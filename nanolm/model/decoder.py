"""The decoder: embedding, L layers of attention and feed-forward, a head; and generation as prefill, then decode."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .._require import require_whole
from ..attention.rope import Offset, Rotation
from ..attention.rope_scaling import rotary_table
from ..cache.attending import AttendingCache
from ..cache.contiguous import KVCache
from ..cache.kinds import CacheKind, cache_classes
from ..cache.ragged import RaggedKVCache
from ..config import ModelConfig
from ..paging.paged_cache import PagedKVCache
from ..sampling.adjusted_stream import with_adjusted_logits
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from ..sampling.sampler import sample_next
from ..window.windowed import WithoutPast, in_windows
from .attention import Attention
from .feedforward import feedforward_of
from .norm import FastRMSNorm


class Layer(nn.Module):
    """Attention and feed-forward, each added to the stream it reads."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.attention_norm = FastRMSNorm(config.d_model, config.norm_eps)
        self.attention = Attention(config, layer)
        self.feedforward_norm = FastRMSNorm(config.d_model, config.norm_eps)
        self.feedforward = feedforward_of(config, layer)

    def forward(
        self, x: Float[Tensor, "B T D"], cache: AttendingCache | None, offset: Offset
    ) -> Float[Tensor, "B T D"]:
        """Return the stream after this layer, (B, T, D)."""
        x = x + self.attention(self.attention_norm(x), cache, offset)
        return x + self.feedforward(self.feedforward_norm(x))


class NanoLM(nn.Module):
    """A Llama-style language model.

    `model(tokens)` gives logits at every position; `model(tokens, cache)` at new positions, after those in the cache.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.n_layers))
        self.norm = FastRMSNorm(config.d_model, config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight
        self.rotary = rotary_table(config.head_dim, config.rope_theta, config.rope_scaling)
        self._initialise()

    def _initialise(self) -> None:
        """Normal weights; what is added to the stream 2L times starts smaller, so that the stream does not grow."""
        for name, weight in self.named_parameters():
            if weight.ndim >= 2:
                ends_in_stream = name.endswith(("attention.out.weight", "feedforward.down.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * self.config.n_layers) ** 0.5 if ends_in_stream else 0.02)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that it computes in: of its norms, whatever else is packed."""
        return self.norm.weight.dtype

    def new_cache(
        self, batch_size: int = 1, capacity: int | None = None, ragged: bool = False, cache_kind: CacheKind = "float"
    ) -> KVCache:
        """Return an empty cache for this model; ragged=True lets every row have a length of its own.

        Args:
            cache_kind: how numbers are kept: "float", as the model's own; "int8" or "float8", a byte each.

        Raises:
            ValueError: another cache_kind; batch_size or capacity below 1.
        """
        classes = cache_classes(cache_kind)
        kind = classes.ragged if ragged else classes.equal
        kind = in_windows(kind) if self.config.windows else kind
        return kind(self.config, batch_size, capacity, dtype=self.dtype, device=self.device)

    def new_paged_cache(self, n_blocks: int, block_size: int = 16, cache_kind: CacheKind = "float") -> PagedKVCache:
        """Return a pool of empty blocks for this model, of which an engine gives each request as many as it needs.

        Raises:
            ValueError: another cache_kind; n_blocks or block_size below 1.
        """
        kind = cache_classes(cache_kind).paged
        return kind(self.config, n_blocks, block_size, dtype=self.dtype, device=self.device)

    def forward(
        self, tokens: Int[Tensor, "B T"], cache: AttendingCache | None = None, last: int | Tensor | None = None
    ) -> Float[Tensor, "B R V"]:
        """Return the logits of the token that follows each of the T new positions.

        With a cache, the positions continue after the cached ones, and their keys and values are written to it.
        The cache is not advanced: the caller does that once the pass is over, and so decides what counts.

        Args:
            tokens: token ids, (B, T).
            last: which positions need logits, since the head costs as much as layers do. None: all, R = T. An int:
                the last `last`, R = last. A (B,) tensor: one position a row, R = 1; (B, R): R positions a row.

        Raises:
            ValueError: tokens that are not (B, T), or not as many rows as the cache has; last outside 1 … T.
        """
        check_pass(tokens, cache, last)
        if cache is None and self.config.windows:
            cache = WithoutPast(self.config.windows, *tokens.shape)
        x = self.embedding(tokens)  # (B, T, D)
        rotation = self._rotation(x, cache)  # looked up once: all layers turn by the same angles
        for layer in self.layers:
            x = layer(x, cache, rotation)
        if isinstance(last, Tensor):
            x = x[torch.arange(len(x), device=x.device)[:, None], last if last.ndim == 2 else last[:, None]]
        elif last is not None:
            x = x[:, -last:]
        return self.head(self.norm(x))

    def _rotation(self, x: Tensor, cache: AttendingCache | None) -> Rotation:
        T, config = x.shape[1], self.config
        if cache is None:
            return self.rotary.rotation(0, T, T, x)
        offset = cache.offset
        if isinstance(offset, int):
            n_positions = offset + T
        elif config.steady_positions < config.max_positions:  # angles follow the length: of the longest row, then
            n_positions = getattr(cache, "length", cache.capacity - T) + T
        else:
            n_positions = cache.capacity
        return self.rotary.rotation(offset, T, n_positions, x)

    def generate(
        self,
        prompt: Sequence[int] | Sequence[Sequence[int]],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        rng: Rng | None = None,
        on_token: Callable[[list[int | None]], None] | None = None,
        cache_kind: CacheKind = "float",
    ) -> list[int] | list[list[int]]:
        """Return the new tokens only: prefill once over the whole prompt, then decode one token a pass.

        A row ends at an end token (which is returned) or after max_new_tokens.

        Args:
            prompt: token ids of one sequence, or a list of such lists (unequal lengths are fine); one sequence
                gives one list back, a batch a list of lists.
            sampling: how tokens are chosen, and the end tokens; None means greedy.
            rng: the source of randomness; None means unseeded.
            on_token: called after every pass with one token a row, None for rows that have ended.
            cache_kind: as for `new_cache`; in a quantized cache the text may come out another.

        Raises:
            ValueError: an empty prompt, a token outside the vocabulary, prompt + max_new_tokens beyond the context, or
                an unknown cache_kind.
        """
        single = len(prompt) > 0 and not isinstance(prompt[0], Sequence)
        rows = cast(Sequence[Sequence[int]], [prompt] if single else prompt)
        texts: list[list[int]] = [[] for _ in rows]
        for step in self.stream(rows, max_new_tokens, sampling, rng, cache_kind):
            for text, token in zip(texts, step, strict=True):
                if token is not None:
                    text.append(token)
            if on_token is not None:
                on_token(step)
        return texts[0] if single else texts

    @with_adjusted_logits
    @torch.inference_mode()
    def stream(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        rng: Rng | None = None,
        cache_kind: CacheKind = "float",
    ) -> Iterator[list[int | None]]:
        """Yield, pass after pass, a list with the new token of each row; None for a row that has ended.

        Prefill is one pass over all prompts and gives each row its first token. Decode is one pass for every further
        token, over the tokens drawn last; so what is drawn in the end is never run. A token is yielded before the next
        pass begins, and no pass begins once every row has ended. A row ends with its first end token, which is still
        yielded. A row that has ended is still run with the others; what it draws is not yielded. The cache needs room
        for the longest prompt and max_new_tokens - 1 tokens behind it. No new tokens: nothing is yielded.

        Rows of unequal length concern the prefill alone. `right_padded` makes one tensor of them, `last` takes each
        row's logits where its own prompt ends, and a ragged cache is advanced by each row's own length: the padding
        counts for nothing, and the tokens that follow overwrite it.

        Args:
            prompts: a list of token ids for each row.
            sampling, rng: as for `generate`. The end tokens are those of `sampling`, or the model's where it has None.
            cache_kind: as for `new_cache`, which makes the cache.

        Raises:
            ValueError: as `generate` (`check_prompts` and `new_cache` raise it).
        """
        sampling, rng = sampling or SamplingParams(temperature=0.0), rng or Rng()
        check_prompts(prompts, max_new_tokens, self.config)
        ends = sampling.ends(self.config.eos_token_ids)
        lengths = [len(prompt) for prompt in prompts]
        longest, ragged = max(lengths), min(lengths) < max(lengths)
        # For the types: rows of their own lengths take a list in `advance`; rows of one length are never given any.
        cache = cast(RaggedKVCache, self.new_cache(len(prompts), longest + max_new_tokens, ragged, cache_kind))
        last = torch.tensor(lengths, device=self.device) - 1
        logits = self(right_padded(prompts, self.device), cache, last)[:, -1]  # prefill: every prompt at once, (B, V)
        cache.advance(lengths if ragged else longest)
        ended = [False] * len(prompts)
        for step in range(max_new_tokens):
            if step:  # decode: one position a row and pass
                logits = self(tokens, cache)[:, -1]
                cache.advance(1)
            tokens = sample_next(logits, sampling, rng)[:, None]  # (B, 1)
            drawn = tokens[:, 0].tolist()
            yield [None if end else token for token, end in zip(drawn, ended, strict=True)]
            ended = [end or token in ends for token, end in zip(drawn, ended, strict=True)]
            if all(ended):
                return


def check_pass(tokens: Tensor, cache: AttendingCache | None, last: int | Tensor | None) -> None:
    """Raise a ValueError that says what is wrong with the arguments of a pass, if anything is."""
    if tokens.ndim != 2 or not tokens.numel():
        raise ValueError(f"tokens has shape {tuple(tokens.shape)}; it must be (B, T), both at least 1")
    if cache is not None and cache.batch_size != len(tokens):
        raise ValueError(
            f"tokens has shape {tuple(tokens.shape)} and the cache {cache.batch_size} rows; B must be equal"
        )
    if isinstance(last, int) and not 1 <= last <= tokens.shape[1]:
        raise ValueError(
            f"last is {last}; of {tokens.shape[1]} positions the last 1 to {tokens.shape[1]} can be scored"
        )


def right_padded(prompts: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Int[Tensor, "B T"]:
    """Return the prompts as the rows of one tensor, the shorter ones filled up with token 0 behind their own tokens."""
    longest = max(len(prompt) for prompt in prompts)
    return torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts], device=device)


def check_prompts(prompts: Sequence[Sequence[int]], max_new_tokens: int, config: ModelConfig) -> None:
    """Raise a ValueError that says what is wrong with a batch of prompts, if anything is."""
    require_whole(0, max_new_tokens=max_new_tokens)
    if not prompts:
        raise ValueError("prompts is empty; give at least one sequence of token ids")
    for row, prompt in enumerate(prompts):
        if not len(prompt):
            raise ValueError(f"prompt {row} is empty; the first token needs one before it (a start token will do)")
        if len(prompt) + max_new_tokens > config.max_positions:
            raise ValueError(
                f"prompt {row} has {len(prompt)} tokens and max_new_tokens is {max_new_tokens}; "
                f"together they may have at most {config.max_positions}, the model's context"
            )
        if min(prompt) < 0 or max(prompt) >= config.vocab_size:
            worst = max(prompt) if max(prompt) >= config.vocab_size else min(prompt)
            raise ValueError(f"prompt {row} holds token {worst}; ids run from 0 to {config.vocab_size - 1}")
