"""A model that writes a text of the test's choosing: each byte of it is followed by the next, the last one by the end.

It is a real NanoLM, with layers that add nothing: the embedding says which byte was last, the head which one follows.
"""

from typing import Any

import tokenizers
import torch
from tiny_checkpoints import tiny_tokenizer

from nanolm.config import ModelConfig
from nanolm.model import NanoLM
from nanolm.text import Tokenizer

END_ID = 0
BYTES = 257  # the end token, and a token for each byte


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer without merges, so that a token is a byte and a character may take four."""
    return tiny_tokenizer(BYTES)


def chatml_tokenizer() -> Tokenizer:
    """Return the same with the two markers of ChatML, <|im_start|> as 257 and <|im_end|> as 258."""
    inner = byte_tokenizer().inner
    inner.add_special_tokens([tokenizers.AddedToken(marker) for marker in ("<|im_start|>", "<|im_end|>")])
    return Tokenizer(inner)


def successor_model(
    text: str, max_positions: int = 256, vocab_size: int = BYTES, end_id: int = END_ID, **changes: Any
) -> NanoLM:
    """Return a model that continues any beginning of the text with the rest; no byte may occur twice.

    Args:
        end_id: the token after the text; 0 is the one that the model itself ends with.
    """
    ids = byte_tokenizer().encode(text)
    assert len(set(ids)) == len(ids) == len(text.encode()), "a byte that occurs twice would have two successors"
    model = NanoLM(
        ModelConfig(
            vocab_size=vocab_size,
            d_model=vocab_size,
            n_layers=1,
            n_heads=1,
            n_kv_heads=1,
            head_dim=2,
            d_ff=1,
            max_positions=max_positions,
            eos_token_ids=(END_ID,),
            tie_embeddings=False,
            **changes,
        )
    ).requires_grad_(False)
    for weight in model.parameters():
        weight.zero_() if weight.ndim == 2 else weight.fill_(1.0)
    model.embedding.weight.copy_(torch.eye(vocab_size))
    for token, following in zip(ids, [*ids[1:], end_id], strict=True):
        model.head.weight[following, token] = 1.0
    return model.eval()
