"""A decoder small enough to follow with a pencil, in NumPy alone, that counts its own work.

What it computes means nothing: the weights are random. What it *does* is what every decoder does, with and without a
cache of keys and values, and each pass, position and projection is counted. There is one head and no feed-forward
block, since a cache changes nothing in a feed-forward block. `model.decoder` and `cache` are the same, for real use.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._require import require_count

from course import NotYetWritten


@dataclass
class Work:
    """What a decoder has done: passes, positions run in them, and vectors projected to a key or to a value."""

    passes: int = 0
    positions_run: int = 0
    kv_projections: int = 0


@dataclass
class TinyCache:
    """Room for the keys and values of one sequence; only its first `length` positions hold any.

    Attributes:
        keys, values: (L, capacity, D) each.
        length: positions cached so far, which is also the position of the next token.
    """

    keys: np.ndarray
    values: np.ndarray
    length: int = 0


@dataclass(frozen=True)
class Generation:
    """A greedily written text and what it took.

    Attributes:
        tokens: the new tokens alone.
        logits: those from which each was chosen, (n_new_tokens, V).
        passes, positions_run, kv_projections: the work, as in `Work`.
    """

    tokens: list[int]
    logits: np.ndarray
    passes: int
    positions_run: int
    kv_projections: int


def causal_attention(
    q: Float[np.ndarray, "T D"], k: Float[np.ndarray, "S D"], v: Float[np.ndarray, "S D"]
) -> Float[np.ndarray, "T D"]:
    """Return softmax(q·kᵀ / √D)·v, (T, D), where no query sees a later position.

    The T queries stand at the last T of the S positions: query t sees the keys 0 … S - T + t, which are all before it
    and its own. Large scores must not overflow: softmax stays the same when each row's largest score is subtracted.
    """
    T, S = len(q), len(k)
    scores = q @ k.T / np.sqrt(q.shape[1])  # (T, S)
    scores = np.where(np.tri(T, S, S - T, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


class TinyDecoder:
    """Token and position vectors, L layers of one attention head each, a matrix that gives V logits; all float64.

    Attributes:
        token_vectors, position_vectors: (V, D) and (capacity, D).
        wq, wk, wv, wo: the matrices of each layer, (L, D, D).
        head: the matrix that gives the logits, (D, V).
        work: what has been done since it was last set to `Work()`.
    """

    def __init__(
        self, vocab_size: int = 32, d_model: int = 16, n_layers: int = 1, capacity: int = 64, seed: int = 0
    ) -> None:
        require_count(1, vocab_size=vocab_size, d_model=d_model, n_layers=n_layers, capacity=capacity)
        random = np.random.default_rng(seed)
        D, L = d_model, n_layers
        self.token_vectors = random.normal(size=(vocab_size, D))
        self.position_vectors = random.normal(size=(capacity, D))
        # Standard deviation 1/√D keeps every vector about as long as the one it was made from.
        self.wq, self.wk, self.wv, self.wo = random.normal(scale=D**-0.5, size=(4, L, D, D))
        self.head = random.normal(scale=D**-0.5, size=(D, vocab_size))
        self.vocab_size, self.d_model, self.n_layers, self.capacity = vocab_size, d_model, n_layers, capacity
        self.work = Work()

    def embed(self, tokens: Sequence[int], offset: int) -> Float[np.ndarray, "T D"]:
        """Return the vectors with which a pass starts, (T, D), and count the pass and its T positions.

        Each is the token's vector plus the vector of its position: offset, offset + 1, …, offset + T - 1.

        Raises:
            ValueError: no token, one outside the vocabulary, or positions outside 0 … capacity - 1.
        """
        T = len(tokens)
        if not T or not all(0 <= token < self.vocab_size for token in tokens):
            highest = self.vocab_size - 1
            raise ValueError(f"tokens is {list(tokens)!r}; it must hold one or more ids from 0 to {highest}")
        if not 0 <= offset <= self.capacity - T:
            raise ValueError(f"{T} tokens from position {offset} on do not fit: capacity is {self.capacity} positions")
        self.work.passes += 1
        self.work.positions_run += T
        return self.token_vectors[list(tokens)] + self.position_vectors[offset : offset + T]

    def project(self, layer: int, x: Float[np.ndarray, "T D"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return queries, keys and values of T positions in this layer, (T, D) each; counts T keys and T values."""
        self.work.kv_projections += 2 * len(x)
        return x @ self.wq[layer], x @ self.wk[layer], x @ self.wv[layer]

    def new_cache(self) -> TinyCache:
        """Return an empty cache with room for `capacity` positions in each of the L layers, shared with no other."""
        shape = (self.n_layers, self.capacity, self.d_model)
        return TinyCache(np.zeros(shape), np.zeros(shape))

    def forward_full(self, tokens: Sequence[int], cache: TinyCache | None = None) -> Float[np.ndarray, "T V"]:
        """Return the logits of the token after each of the T tokens, which are a whole text so far; one pass.

        A layer adds to each position's vector what it attends to, through `wo`; `head` turns what comes out of the
        last one into logits. With a cache this is the prefill: the keys and values of all T positions are written to
        it, layer by layer, and after the last layer its length is T.

        Args:
            tokens: the text from its first token on, so it stands at positions 0 … T - 1.
            cache: an empty one to fill, or None.

        Raises:
            ValueError: a cache that is not empty, or what `embed` refuses.
        """
        if cache is not None and cache.length:
            raise ValueError(f"cache holds {cache.length} positions; it must be empty, since these tokens begin at 0")
        x = self.embed(tokens, 0)  # (T, D)
        for layer in range(self.n_layers):
            q, k, v = self.project(layer, x)
            if cache is not None:
                cache.keys[layer, : len(x)], cache.values[layer, : len(x)] = k, v
            x = x + causal_attention(q, k, v) @ self.wo[layer]
        if cache is not None:
            cache.length = len(x)
        return x @ self.head

    def forward_step(self, token: int, cache: TinyCache) -> Float[np.ndarray, " V"]:
        """Return the logits of the token after `token`, which follows the cached ones; a pass of one position, (V,).

        The token stands at position `cache.length`. In each layer its key and value join that layer's cached ones, and
        its query attends to those and to itself; places of the cache that are not filled yet take no part. After the
        last layer the cache counts one position more. The result is the last row of `forward_full` over the whole
        text, up to rounding.

        Raises:
            ValueError: the cache is full, or the token is outside the vocabulary.
        """
        raise NotYetWritten(
            "exercise 2.1 TinyDecoder is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, "
            "write it in exercises/model/tiny_decoder.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/model/test_tiny_decoder.py --exercise TinyDecoder"
        )

    def generate(self, prompt: Sequence[int], n_new_tokens: int, use_cache: bool = True) -> Generation:
        """Return `n_new_tokens` tokens after the prompt, each the one of the largest logit, and this call's work.

        Every pass writes one token. Without a cache each runs the whole text so far. With one, the first pass runs the
        prompt (prefill) and each later pass the token written last (decode), so the final token is never run. Every
        call starts with an empty cache and with all counts at 0. No new token: no pass.

        Raises:
            ValueError: an empty prompt (the message names `prompt`), n_new_tokens not a whole number, 0 or more, or
                what `embed` refuses.
        """
        raise NotYetWritten(
            "exercise 2.1 TinyDecoder is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, "
            "write it in exercises/model/tiny_decoder.py, then run: NANOLM_IMPL=exercises python -m pytest "
            "tests/model/test_tiny_decoder.py --exercise TinyDecoder"
        )
