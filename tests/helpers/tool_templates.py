"""Chat templates that know tools, in the ways of several families, for a tokenizer of bytes with their tokens."""

import tokenizers
from successor_model import byte_tokenizer

from nanolm.text import Tokenizer

_TURNS = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}CALLS{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "between tags": _TURNS.replace(
        "CALLS",
        "{% for c in m.tool_calls %}<tool_call>\n"
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}',
    ),
    "bare": _TURNS.replace(
        "CALLS", '{"name": "{{ m.tool_calls[0].function.name }}", "parameters": '
        "{{ m.tool_calls[0].function.arguments | tojson }}}"
    ),
    "a list behind a token": _TURNS.replace(
        "CALLS", '[TOOL_CALLS][{"name": "{{ m.tool_calls[0].function.name }}", "arguments": '
        "{{ m.tool_calls[0].function.arguments | tojson }}}]"
    ),
    "a list with numbers of nine characters": _TURNS.replace(
        "CALLS", "[TOOL_CALLS][{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('nine') }}"
        '{% endif %}{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, '
        '"id": "{{ c.id }}"}{% if not loop.last %}, {% endif %}{% endfor %}]'
    ),
    "a name in the tag": _TURNS.replace(
        "CALLS", "{% for c in m.tool_calls %}<do={{ c.function.name }}>{{ c.function.arguments | tojson }}"
        "</do>{% endfor %}"
    ),
    "a name between tokens": _TURNS.replace(
        "CALLS", "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}\n```json\n"
        "{{ c.function.arguments | tojson }}\n```[END]{% endfor %}"
    ),
    "thought of nothing": _TURNS.replace(
        "CALLS", "<think>\n\n</think>\n\n{% for c in m.tool_calls %}{{ '' if loop.first else '\n' }}<tool_call>\n"
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    ),
}  # fmt: skip
SEVERAL = {"a list with numbers of nine characters", "a name in the tag", "a name between tokens", "thought of nothing"}
NO_TOOLS = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
NO_JSON = _TURNS.replace("CALLS", "call({{ m.tool_calls[0].function.name }})")


def tool_tokenizer(template: str) -> Tokenizer:
    """A tokenizer of bytes with the markers of these templates, and one of the templates."""
    inner = tokenizers.Tokenizer.from_str(byte_tokenizer().inner.to_str())
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>", "[TOOL_CALLS]", "[END]"])
    inner.add_tokens(["<tool_call>", "</tool_call>"])
    return Tokenizer(inner, chat=template)
