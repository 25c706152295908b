"""Conversations as prompts, token for token those of transformers' `apply_chat_template`; how texts begin."""

import pytest
from chat_folders import KINDS, TEMPLATES

from nanolm.checkpoint import read_tokenizer, with_tokens
from nanolm.config import ModelConfig
from nanolm.text import after_start, chat_prompt

CONVERSATIONS = {
    "one message": [("user", "Hello world")],
    "a conversation": [("user", " Hello \n"), ("assistant", "world,  世界"), ("user", "two\n\nlines")],
    "a system's message": [("system", "Be brief."), ("user", "Größe 🙂?")],
}


@pytest.fixture(params=KINDS)
def folder(request, transformers, tmp_path):
    """A folder with a tokenizer, and transformers' reading of it."""
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=KINDS[request.param](), bos_token="<s>", eos_token="</s>"
    )

    def written(template):
        theirs.chat_template = template
        theirs.save_pretrained(tmp_path)
        return tmp_path, transformers.AutoTokenizer.from_pretrained(tmp_path)

    return written


def ours(path):
    tokenizer, adds_start = read_tokenizer(path)
    config = ModelConfig(300, 8, 1, 2, 1, 4, 8, bos_token_id=7, eos_token_ids=(2,))
    return tokenizer, with_tokens(config, path, tokenizer, adds_start)


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_chat_prompt_is_that_of_apply_chat_template(folder, template, conversation):
    path, theirs = folder(TEMPLATES[template])
    messages = [{"role": role, "content": content} for role, content in CONVERSATIONS[conversation]]
    expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    tokenizer, config = ours(path)
    assert chat_prompt(CONVERSATIONS[conversation], tokenizer, config) == expected


@pytest.mark.parametrize("text", ["Hello world", " two  spaces\n", "世界 🙂", "", "<s>x</s>"])
def test_a_text_begins_as_the_tokenizer_has_it_and_not_as_config_json_says(folder, text):
    path, theirs = folder(None)
    tokenizer, config = ours(path)
    assert after_start(tokenizer.encode(text), config) == theirs(text).input_ids
    assert tokenizer.decode(tokenizer.encode(text)) == theirs.decode(tokenizer.encode(text))


def test_a_template_among_several_is_the_one_named_default(folder):
    path, theirs = folder({"default": TEMPLATES["ChatML"], "tool_use": "{{ raise_exception('no tools') }}"})
    expected = theirs.apply_chat_template(
        [{"role": "user", "content": "Hi"}], return_dict=False, add_generation_prompt=True
    )
    tokenizer, config = ours(path)
    assert chat_prompt([("user", "Hi")], tokenizer, config) == expected
