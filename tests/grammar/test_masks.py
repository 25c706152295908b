"""Tests `grammar/guidance.py` and `optional.py`: what is allowed depends on the text alone, drafted or written."""

import random

import pytest
import torch
from successor_model import byte_tokenizer

from nanolm.checkpoint import SHIPPED
from nanolm.grammar import GrammarCompiler, OptionalGrammar, mask_logits
from nanolm.text import Tokenizer

pytest.importorskip("llguidance", reason="the library llguidance is not installed: no grammar was followed")

SHIPPED_TOKENIZER = Tokenizer.from_file(SHIPPED / "target" / "tokenizer.json")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"enum": [1, 2, None]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ENDS = (0, 7)


def grammars(tokenizer):
    compiler = GrammarCompiler(tokenizer)
    whole = compiler.from_json_schema(SCHEMA)
    arguments = '{"properties": {"q": {"enum": [1, 22]}}, "required": ["q"], "additionalProperties": false}'
    call = compiler.from_lark(f'start: "<c>" call\ncall: %json {arguments}\n')
    return {"schema": whole, "call": call, "call or text": OptionalGrammar(call, "<c>{", compiler)}


@pytest.mark.parametrize("tokenizer", [byte_tokenizer(), SHIPPED_TOKENIZER], ids=["bytes", "shipped"])
@pytest.mark.parametrize("which", ["schema", "call", "call or text"])
def test_a_row_behind_drafted_tokens_is_the_row_behind_the_same_tokens_written(tokenizer, which):
    grammar, rng = grammars(tokenizer)[which], random.Random(1)
    for _ in range(6):
        constraint, answer = grammar.constraint(ENDS), []
        begin = tokenizer.encode("<c>{") if which == "call or text" and rng.random() < 0.8 else []
        while len(answer) < 40 and not constraint.is_whole(answer):
            drafted = []
            while len(drafted) < rng.randrange(4):
                row = grammar.constraint(ENDS).allowed([*answer, *drafted], [])[0]
                forced = begin[len(answer) + len(drafted) :][:1]
                drafted += forced or [rng.choice(row.nonzero()[:, 0].tolist())]
                if drafted[-1] in ENDS:
                    break
            rows = constraint.allowed(answer, drafted)
            assert len(rows) == len(drafted) + 1
            for i, row in enumerate(rows):
                if i and drafted[i - 1] in ENDS:
                    assert row.all(), "behind an end nobody draws"
                    continue
                fresh = grammar.constraint(ENDS)
                assert torch.equal(row, fresh.allowed([*answer, *drafted[:i]], [])[0]), tokenizer.decode(answer)
            choices = rows[0].nonzero()[:, 0].tolist()
            token = begin[len(answer)] if len(answer) < len(begin) else rng.choice(choices)
            answer.append(token)
            if token in ENDS:
                break


def test_an_end_may_come_where_the_text_is_whole_and_nowhere_else():
    tokenizer = byte_tokenizer()
    schema = {"type": "integer", "minimum": 0, "maximum": 99}
    constraint = GrammarCompiler(tokenizer).from_json_schema(schema).constraint(ENDS)
    rows = constraint.allowed([], tokenizer.encode("4"))
    assert [bool(row[end]) for row in rows for end in ENDS] == [False, False, True, True]
    assert not constraint.is_whole(tokenizer.encode("4")) and constraint.is_whole(tokenizer.encode("42"))


def test_a_drafted_token_that_breaks_the_grammar_leaves_the_rows_behind_it_open():
    tokenizer = byte_tokenizer()
    constraint = GrammarCompiler(tokenizer).from_json_schema(SCHEMA).constraint(ENDS)
    rows = constraint.allowed([], tokenizer.encode("{x{"))
    assert not rows[0].all() and not rows[1].all() and rows[2].all() and rows[3].all()
    assert torch.equal(constraint.allowed([], [])[0], rows[0]), "a look ahead changes nothing"


def test_ids_that_no_mask_knows_are_not_allowed():
    masked = mask_logits(torch.zeros(1, 5), torch.tensor([[True, False, True]]))
    assert masked.tolist() == [[0.0, -torch.inf, 0.0, -torch.inf, -torch.inf]]
