"""The tokenizer in a GGUF file's metadata: byte-level BPE with its merges, or SentencePiece's pieces with their scores.

SentencePiece joins the pair whose joint piece has the highest score. Ranked by that score, its pieces are the merges of
a BPE: so one library tokenizes for both.
"""

from collections.abc import Sequence
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from ..text.tokenizer import Tokenizer
from .gguf_blocks import GGUFFile

# How a text is cut before pairs are merged, by the file's name for it: expressions, each over what the last has left.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_CUTS: dict[str, str | None] = {
    "smollm": None, "gpt-2": None, "default": None, "llama-bpe": _LLAMA3, "llama3": _LLAMA3, "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
}  # fmt: skip
_SINGLE_DIGITS = ("smollm",)
_BEGIN_WITH_START = ("llama-bpe", "llama3", "llama-v3")  # unless the file says otherwise, as llama.cpp
_CONTROL, _USER_DEFINED, _BYTE = 3, 4, 6  # types of tokens
_SPACE = "▁"


def gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Return the tokenizer in a file's metadata, its control tokens as special, with the chat template if there is one.

    Raises:
        ValueError: a missing or misshapen entry, or another kind of tokenizer.
    """
    kind = entry(file, "tokenizer.ggml.model", str)
    makers = {"gpt2": _byte_level, "llama": _sentencepiece}
    if kind not in makers:
        allowed = " and ".join(map(repr, makers))
        raise ValueError(f"{file.path} has tokenizer.ggml.model = {kind!r}; this reader knows {allowed} only")
    tokens = entries(file, "tokens", str)
    types = entries(file, "token_type", int, len(tokens)) if file.entry("tokenizer.ggml.token_type") else []
    try:
        inner = makers[kind](file, tokens)
        for token, its_type in zip(tokens, types, strict=False):
            if its_type in (_CONTROL, _USER_DEFINED):
                inner.add_tokens([AddedToken(token, special=its_type == _CONTROL, normalized=False)])
    except ValueError:
        raise
    except Exception as error:  # the library raises bare Exceptions
        raise ValueError(f"{file.path} has a tokenizer that does not fit together: {error}") from error
    ids = {name: file.entry(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "unknown", "padding")}
    names = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
    special = {names[n]: tokens[token_id(file, n, len(tokens))] for n, value in ids.items() if value is not None}
    template = file.entry("tokenizer.chat_template")
    if not isinstance(template, str | None):
        raise ValueError(f"{file.path} has tokenizer.chat_template = {str(template)[:40]}; it must be of type str")
    return Tokenizer(inner, tokens[token_id(file, "eos", len(tokens))], template, special)


def start_token(file: GGUFFile, n_tokens: int) -> int | None:
    """Return the token that texts begin with, or None where they do not; the file says, or the kind of tokenizer."""
    by_kind = entry(file, "tokenizer.ggml.model", str) == "llama"
    by_kind = by_kind or file.entry("tokenizer.ggml.pre") in _BEGIN_WITH_START
    return token_id(file, "bos", n_tokens) if entry(file, "tokenizer.ggml.add_bos_token", bool, by_kind) else None


def end_tokens(file: GGUFFile, n_tokens: int) -> tuple[int, ...]:
    """Return the tokens that end a text, and those that end a turn where the file knows of any."""
    names = ["eos", *(name for name in ("eot", "eom") if file.entry(f"tokenizer.ggml.{name}_token_id") is not None)]
    return tuple(dict.fromkeys(token_id(file, name, n_tokens) for name in names))


def token_id(file: GGUFFile, name: str, n_tokens: int) -> int:
    """Return a token id of the metadata; raise ValueError if it is no id of the vocabulary."""
    key = f"tokenizer.ggml.{name}_token_id"
    found = entry(file, key, int)
    if not 0 <= found < n_tokens:
        raise ValueError(f"{file.path} has {key} = {found}; ids run from 0 to {n_tokens - 1}")
    return found


def entry(file: GGUFFile, key: str, kind: type, missing: Any = None) -> Any:
    """Return an entry of the metadata, if it is of this kind; `missing`, unless None, stands for one not there.

    Raises:
        ValueError: it is missing, or of another kind.
    """
    value = file.entry(key)
    value = missing if value is None else value
    if value is None:
        raise ValueError(f"{file.path} lacks the entry {key}")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{file.path} has {key} = {str(value)[:40]}; it must be of type {kind.__name__}")
    return value


def entries(file: GGUFFile, name: str, kind: type, length: int | None = None) -> list[Any]:
    """Return a list of the tokenizer's, if all of it is of this kind; raise ValueError otherwise."""
    key = f"tokenizer.ggml.{name}"
    found = entry(file, key, list)
    if not found or not all(isinstance(each, kind) for each in found):
        raise ValueError(f"{file.path} has {key} = {str(found)[:40]}; it must be a list of {kind.__name__}, not empty")
    if length is not None and len(found) != length:
        raise ValueError(
            f"{file.path} has {len(found)} entries in {key} and {length} tokens; there must be one for each"
        )
    return found


def _byte_level(file: GGUFFile, tokens: Sequence[str]) -> tokenizers.Tokenizer:
    cut = entry(file, "tokenizer.ggml.pre", str, "gpt-2")
    if cut not in _CUTS:
        allowed = ", ".join(map(repr, _CUTS))
        raise ValueError(f"{file.path} has tokenizer.ggml.pre = {cut!r}; this reader knows {allowed} only")
    pairs = [tuple(merge.split(" ", 1)) for merge in entries(file, "merges", str)]
    wrong = next((pair for pair in pairs if len(pair) != 2), None)
    if wrong is not None:
        raise ValueError(
            f"{file.path} has {wrong[0][:40]!r} in tokenizer.ggml.merges; it must be two tokens and a space"
        )
    vocabulary = {token: i for i, token in enumerate(tokens)}
    inner = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=cut in _BEGIN_WITH_START))
    expression = _CUTS[cut]
    if expression is None:
        steps = [pre_tokenizers.Digits(individual_digits=True)] if cut in _SINGLE_DIGITS else []
    else:
        steps = [pre_tokenizers.Split(Regex(expression), "isolated")]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=expression is None)
    inner.pre_tokenizer = pre_tokenizers.Sequence([*steps, level])  # pyright: ignore[reportAttributeAccessIssue]
    inner.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    if cut == "qwen2":
        inner.normalizer = normalizers.NFC()  # pyright: ignore[reportAttributeAccessIssue]
    return inner


def _sentencepiece(file: GGUFFile, tokens: Sequence[str]) -> tokenizers.Tokenizer:
    scores = entries(file, "scores", float, len(tokens))
    vocabulary = {token: i for i, token in enumerate(tokens)}
    missing = [f"<0x{byte:02X}>" for byte in range(256) if f"<0x{byte:02X}>" not in vocabulary]
    unknown = file.entry("tokenizer.ggml.unknown_token_id")
    unknown = tokens[token_id(file, "unknown", len(tokens))] if unknown is not None else None
    model = models.BPE(
        vocabulary, _merges(vocabulary, scores), unk_token=unknown, byte_fallback=not missing, fuse_unk=True
    )
    inner = tokenizers.Tokenizer(model)
    adds_space = entry(file, "tokenizer.ggml.add_space_prefix", bool, True)
    steps = [*([normalizers.Prepend(_SPACE)] if adds_space else []), normalizers.Replace(" ", _SPACE)]
    inner.normalizer = normalizers.Sequence(steps)  # pyright: ignore[reportAttributeAccessIssue]
    strip = [decoders.Strip(" ", 1, 0)] if adds_space else []
    parts = [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    inner.decoder = decoders.Sequence(parts)  # pyright: ignore[reportAttributeAccessIssue]
    return inner


def _merges(vocabulary: dict[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, the piece with the highest score first."""
    found = [
        (-scores[i], vocabulary[piece[:cut]], vocabulary[piece[cut:]], piece[:cut], piece[cut:])
        for piece, i in vocabulary.items()
        for cut in range(1, len(piece))
        if piece[:cut] in vocabulary and piece[cut:] in vocabulary
    ]
    return [(left, right) for *_, left, right in sorted(found)]
