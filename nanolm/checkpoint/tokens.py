"""The tokenizer of a Hugging Face folder, and what its files say of texts: where they begin and end, how people talk.

A config.json names a start token whether or not texts began with it in training; the tokenizer knows. It may also name
one end token of several: an instruct model's answers end with another than its documents did.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers.processors import TemplateProcessing

from ..config import ModelConfig
from ..hf_config.entries import token_ids
from ..text.tokenizer import Tokenizer
from .tensor_files import read_json

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def read_tokenizer(folder: Path) -> tuple[Tokenizer, bool | None]:
    """Return the tokenizer of a folder, and whether its files say outright that texts begin with its start token.

    Raises:
        FileNotFoundError: there is no tokenizer.json; the message says if there is one of SentencePiece.
        ValueError: a file that is no tokenizer, or an entry of the wrong type.
    """
    if not (folder / "tokenizer.json").is_file() and (folder / "tokenizer.model").is_file():
        raise FileNotFoundError(
            f"{folder} has no tokenizer.json but a tokenizer.model of SentencePiece, which is not read from a folder; "
            "save the tokenizer with transformers (AutoTokenizer … save_pretrained), which writes tokenizer.json"
        )
    inner = Tokenizer.from_file(folder / "tokenizer.json").inner
    path = folder / "tokenizer_config.json"
    said = read_json(path) if path.is_file() else {}
    special = {name: text for name in _SPECIAL if (text := _text_of(said, name, path)) is not None}
    adds = said.get("add_bos_token")
    if not isinstance(adds, bool | None):
        raise ValueError(f"{path} has add_bos_token = {adds!r}; it must be true or false")
    for name in {"eos_token", "bos_token"} & special.keys():
        if inner.token_to_id(special[name]) is None:
            raise ValueError(f"{path} has {name} = {special[name]!r}, which is no token of tokenizer.json")
    end = special.get("eos_token", "<|endoftext|>")
    return Tokenizer(inner, end, _chat_template(folder, said, path), special), adds


def with_tokens(config: ModelConfig, folder: Path, tokenizer: Tokenizer, adds_start: bool | None) -> ModelConfig:
    """Return the configuration with the start token that the tokenizer adds, if any, and all end tokens there are.

    End tokens are those of config.json, of generation_config.json and, of a model that knows chat, the tokenizer's.

    Raises:
        ValueError: an end token that is no whole number, or outside the vocabulary.
    """
    start = tokenizer.start_tokens() if adds_start is None else []
    if adds_start and "bos_token" in tokenizer.special:
        start = [tokenizer.inner.token_to_id(tokenizer.special["bos_token"])]
    path = folder / "generation_config.json"
    ends = (*config.eos_token_ids, *(token_ids(read_json(path), "eos_token_id", str(path)) if path.is_file() else ()))
    if tokenizer.chat is not None and tokenizer.eos_id is not None:
        ends = (*ends, tokenizer.eos_id)
    for token in ends:
        if token >= config.vocab_size:
            raise ValueError(f"{folder}: end token {token} is outside the vocabulary, 0 to {config.vocab_size - 1}")
    return replace(config, bos_token_id=start[0] if start else None, eos_token_ids=tuple(dict.fromkeys(ends)))


def beginning_with(tokenizer: Tokenizer, start: int | None) -> Tokenizer:
    """Return the tokenizer as a model's files should have it: it puts the start token before a text, or nothing."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.inner.to_str())
    text = None if start is None else inner.id_to_token(start)
    inner.post_processor = None  # pyright: ignore[reportAttributeAccessIssue]
    if text is not None:
        inner.post_processor = TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
            single=f"{text} $A", pair=f"{text} $A {text}:1 $B:1", special_tokens=[(text, start)]
        )
    return Tokenizer(inner)


def _text_of(said: dict[str, Any], name: str, path: Path) -> str | None:
    token = said.get(name)
    token = token.get("content") if isinstance(token, dict) else token
    if not isinstance(token, str | None):
        raise ValueError(f"{path} has {name} = {token!r}; it must be a text, or an object with a content")
    if token is not None and not _is_unicode(token):
        raise ValueError(f"{path} has {name} = {token!r}; it must be a text of whole characters")
    return token


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold a text; JSON can spell halves of a character alone, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _chat_template(folder: Path, said: dict[str, Any], path: Path) -> str | None:
    """The template of a file of its own, or that of tokenizer_config.json; of several the one named "default"."""
    if (folder / "chat_template.jinja").is_file():
        try:
            return (folder / "chat_template.jinja").read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{folder / 'chat_template.jinja'} is not UTF-8: {error}") from error
    template = said.get("chat_template")
    if template is None and (folder / "chat_template.json").is_file():
        template = read_json(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default", template)
    if not isinstance(template, str | None):
        raise ValueError(f"{path} has a chat_template that is neither a text nor a list with one named 'default'")
    return template
