"""Tokenizers of three kinds with special tokens, and chat templates as the families have them."""

import tokenizers
from tiny_checkpoints import tiny_tokenizer
from tokenizers import decoders, models, normalizers
from tokenizers.processors import TemplateProcessing

SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]
TEMPLATES = {
    "ChatML": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "Zephyr": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
        "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
        "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
    ),
    "Llama 3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
        "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
        "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
    ),
    "Mistral": (
        "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}"
        "{%- set rest = messages[1:] %}{%- else %}{%- set rest = messages %}{%- endif %}{{- bos_token }}"
        "{%- for message in rest %}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{- raise_exception('roles must alternate') }}{%- endif %}{%- if message['role'] == 'user' %}"
        "{%- if loop.first and system is defined %}{{- '[INST] ' + system + '\n\n' + message['content'] + '[/INST]' }}"
        "{%- else %}{{- '[INST] ' + message['content'] + '[/INST]' }}{%- endif %}{%- else %}"
        "{{- ' ' + message['content'] + eos_token }}{%- endif %}{%- endfor %}"
    ),
    "Qwen3's means": (
        "{%- set ns = namespace(last=-1) %}{%- for message in messages %}{%- if message.role == 'tool' %}"
        "{%- continue %}{%- endif %}{%- set ns.last = loop.index0 %}{%- endfor %}{%- for message in messages %}"
        "{{- '<|im_start|>' + message.role + '\n' }}{%- generation %}{{- message.content.lstrip('\n') }}"
        "{%- endgeneration %}{{- '<|im_end|>\n' }}{%- endfor %}{{- {'last': ns.last, 'html': '<&>'} | tojson }}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}{%- if tools %}no{%- endif %}"
    ),
}


def byte_level() -> tokenizers.Tokenizer:
    """A byte-level tokenizer that puts nothing before a text."""
    inner = tokenizers.Tokenizer.from_str(tiny_tokenizer().inner.to_str())
    inner.add_special_tokens(SPECIAL)
    return inner


def beginning() -> tokenizers.Tokenizer:
    """The same, which puts <s> before a text."""
    inner = byte_level()
    start = [("<s>", inner.token_to_id("<s>"))]
    inner.post_processor = TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=start)
    return inner


def byte_fallback() -> tokenizers.Tokenizer:
    """As Llama 2's: pieces of SentencePiece, a piece for each byte, a space before every text, which decoding drops."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"Helotrwd", "▁w", "or", "▁wor"]
    merges = [("▁", "w"), ("o", "r"), ("▁w", "or")]
    model = models.BPE({piece: i for i, piece in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True)
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    inner.decoder = decoders.Sequence(parts)
    inner.add_special_tokens(SPECIAL)
    start = [("<s>", inner.token_to_id("<s>"))]
    inner.post_processor = TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=start)
    return inner


KINDS = {"byte-level": byte_level, "byte-level with a start token": beginning, "byte fallback": byte_fallback}
