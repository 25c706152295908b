"""`nanolm/openai_api/chat.py`: what a model's chat template refuses is the client's error, not the server's."""

import pytest
from tiny_checkpoints import tiny_tokenizer
from tiny_models import tiny_config

from nanolm.openai_api import ChatBody, Message, Refusal
from nanolm.text import Tokenizer


def test_a_conversation_that_the_model_s_template_refuses_is_a_400_that_says_why():
    tokenizer = Tokenizer(tiny_tokenizer().inner, chat="{{ raise_exception('roles must alternate') }}")
    asked = ChatBody(model="tiny", messages=[Message(role="user", content="Hi")])
    with pytest.raises(Refusal, match="roles must alternate") as refused:
        asked.prompts(tiny_config(), tokenizer)
    assert (refused.value.status, refused.value.param) == (400, "messages")
