"""Text to token ids and back: tokenizers, conversations as prompts, text as it streams."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "bounded_jinja": [
        "BoundedEnvironment",
        "Budget",
        "OUTPUTS",
        "to_json",
    ],
    "chat": [
        "CHATML_MARKERS",
        "ChatML",
        "ChatTemplate",
        "PlainText",
        "ROLES",
        "chat_prompt",
        "chat_template",
        "check_messages",
        "last_tokens",
    ],
    "detokenizer": [
        "IncrementalDetokenizer",
        "after_start",
        "overlap",
    ],
    "rendered_chat": [
        "Message",
        "RenderedChat",
    ],
    "token_bytes": [
        "bytes_of",
    ],
    "tokenizer": [
        "Tokenizer",
    ],
    "tool_calls": [
        "ID",
        "ID_LENGTH",
        "ToolCallFormat",
        "tool_call_format",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .bounded_jinja import BoundedEnvironment as BoundedEnvironment
    from .bounded_jinja import Budget as Budget
    from .bounded_jinja import OUTPUTS as OUTPUTS
    from .bounded_jinja import to_json as to_json
    from .chat import CHATML_MARKERS as CHATML_MARKERS
    from .chat import ChatML as ChatML
    from .chat import ChatTemplate as ChatTemplate
    from .chat import PlainText as PlainText
    from .chat import ROLES as ROLES
    from .chat import chat_prompt as chat_prompt
    from .chat import chat_template as chat_template
    from .chat import check_messages as check_messages
    from .chat import last_tokens as last_tokens
    from .detokenizer import IncrementalDetokenizer as IncrementalDetokenizer
    from .detokenizer import after_start as after_start
    from .detokenizer import overlap as overlap
    from .rendered_chat import Message as Message
    from .rendered_chat import RenderedChat as RenderedChat
    from .token_bytes import bytes_of as bytes_of
    from .tokenizer import Tokenizer as Tokenizer
    from .tool_calls import ID as ID
    from .tool_calls import ID_LENGTH as ID_LENGTH
    from .tool_calls import ToolCallFormat as ToolCallFormat
    from .tool_calls import tool_call_format as tool_call_format
