"""Grammars by the library llguidance: a parser that says in a fraction of a millisecond which tokens may follow.

It is taken rather than outlines-core, which makes an automaton of the whole schema over the whole vocabulary before the
first token (seconds for a large one), knows no recursion, and has a wheel for each Python; this one has a single wheel
a system for all of them, and is what vLLM, SGLang and llama.cpp use.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._require import require_package
from ..text.token_bytes import bytes_of
from ..text.tokenizer import Tokenizer
from .constraint import GAVE_UP

_Matcher = Any  # llguidance.LLMatcher: the library is an optional extra, and its types with it


class GrammarCompiler:
    """Makes grammars for a tokenizer.

    Attributes:
        bytes: of each token; behind them all is one that is the library's own.

    Raises:
        ModuleNotFoundError: the library llguidance is not installed.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.library: Any = require_package("llguidance", "JSON schemas and tools", "json")
        self.vocab_size = tokenizer.vocab_size
        # The library's own end token is one that no model has, so that ends are this package's affair alone.
        vocabulary = _Vocabulary(tokenizer)
        self._tokenizer = self.library.LLTokenizer(self.library.TokenizerWrapper(vocabulary))
        self.bytes: list[bytes] = vocabulary.tokens

    def tokens_of(self, spelled: bytes) -> list[int]:
        """Return tokens that put these bytes into a text."""
        return self._tokenizer.tokenize_bytes(spelled)

    def from_json_schema(self, schema: Any) -> "GuidanceGrammar":
        """Return the grammar of compact JSON that a schema allows.

        Raises:
            ValueError: it is no schema, or has something that the library does not know or cannot hold.
        """
        return self._checked(self.json_source(schema))

    def from_lark(self, source: str) -> "GuidanceGrammar":
        """Return the grammar that a text in the library's dialect of Lark describes.

        Raises:
            ValueError: it is none.
        """
        return self._checked(self.library.LLMatcher.grammar_from_lark(source))

    def json_source(self, schema: Any) -> str:
        """Return a schema as the library's own text; raise a ValueError for what is no JSON object."""
        return self.library.LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})

    def _checked(self, source: str) -> "GuidanceGrammar":
        matcher = self.library.LLMatcher(self._tokenizer, source, log_level=0)
        if not matcher.is_error():  # some are found to be too large with the first token only
            first = matcher.deep_copy()
            first.compute_bitmask()
            matcher = first if first.is_error() else matcher
        if matcher.is_error():
            raise ValueError(_why(matcher))
        return GuidanceGrammar(matcher, self.vocab_size)


class GuidanceGrammar:
    """A grammar, compiled."""

    def __init__(self, matcher: _Matcher, vocab_size: int) -> None:
        self._matcher, self.vocab_size = matcher, vocab_size

    def takes(self, answer: Sequence[int]) -> bool:
        """Whether an answer may begin like this."""
        return self._matcher.deep_copy().try_consume_tokens(list(answer)) == len(answer)

    def constraint(self, end_tokens: Sequence[int]) -> "GuidanceConstraint":
        """As Grammar.constraint."""
        return GuidanceConstraint(self._matcher.deep_copy(), self.vocab_size, end_tokens)


class GuidanceConstraint:
    """A grammar along one answer."""

    def __init__(self, matcher: _Matcher, vocab_size: int, end_tokens: Sequence[int]) -> None:
        self._matcher, self.vocab_size = matcher, vocab_size
        self._ends = [token for token in end_tokens if token < vocab_size]
        self._n_read = 0

    def allowed(self, answer: Sequence[int], drafted: Sequence[int]) -> Tensor:
        """As Constraint.allowed."""
        self._read(answer)
        rows = [self._row(self._matcher)]
        ahead = self._matcher.deep_copy() if drafted else self._matcher
        for token in drafted:
            is_possible = bool(rows[-1][token]) and token not in self._ends and ahead.consume_token(token)
            if not is_possible:
                break
            rows.append(self._row(ahead))
        rows += [torch.ones(self.vocab_size, dtype=torch.bool)] * (len(drafted) + 1 - len(rows))
        return torch.stack(rows)

    def is_whole(self, answer: Sequence[int]) -> bool:
        """As Constraint.is_whole."""
        self._read(answer)
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def _read(self, answer: Sequence[int]) -> None:
        new = [token for token in answer[self._n_read :] if token not in self._ends]
        self._n_read = len(answer)
        if new:
            self._matcher.consume_tokens(new)
        if self._matcher.is_error():
            raise ValueError(f"{GAVE_UP}: {_why(self._matcher)}")

    def _row(self, matcher: _Matcher) -> Tensor:
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        row = torch.from_numpy(np.unpackbits(bits, bitorder="little")[: self.vocab_size].astype(bool))
        row[self._ends] = matcher.is_accepting()
        return row if row.any() else torch.ones_like(row)


def _why(matcher: _Matcher) -> str:
    """Return what the library says of a grammar that it cannot follow, the first line of it."""
    return (matcher.get_error() or matcher.stop_reason()).partition("\n")[0][:300]


class _Vocabulary:
    """A tokenizer as the library wants it: the bytes of each token, and one end token behind them all."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, n = tokenizer, tokenizer.vocab_size
        special = tokenizer.special_texts
        self.special_token_ids = [tokenizer.inner.token_to_id(text) for text in special] + [n]
        self.tokens = [bytes_of(token, tokenizer) for token in range(n)] + [b"<|end of grammar|>"]
        self.eos_token_id, self.bos_token_id = n, None

    def __call__(self, text: str | bytes) -> list[int]:
        return self.tokenizer.encode(text if isinstance(text, str) else text.decode(errors="replace"))
