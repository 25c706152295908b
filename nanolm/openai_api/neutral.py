"""Parameters that are not done here: refused, unless their value asks for nothing, since clients send that always.

Refused and not ignored: whoever asks for a beam search should not have to find out that there was none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .._require import shown
from .refusal import Refusal

# By whose they are, each with the values that ask for nothing, beside null.
OPENAI: dict[str, Sequence[Any]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "prediction": (),
    "reasoning_effort": ("none",),
    "suffix": ("",),
    "parallel_tool_calls": (True, False),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": ("medium",),
    "web_search_options": (),
}
VLLM: dict[str, Sequence[Any]] = {
    "add_generation_prompt": (True,),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "cache_salt": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "detokenize": (True,),
    "documents": ([],),
    "early_stopping": (False,),
    "ec_transfer_params": (),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "include_reasoning": (True,),
    "include_stop_str_in_output": (False,),
    "kv_transfer_params": (),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "logprob_token_ids": (),
    "media_io_kwargs": ({},),
    "mm_processor_kwargs": ({},),
    "priority": (0,),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "repetition_detection": (),
    "return_prompt_text": (False,),
    "return_token_ids": (False,),
    "return_token_offsets": (False,),
    "return_tokens_as_token_ids": (False,),
    "routed_experts_prompt_start": (0,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "stream_interval": (1,),
    "structured_outputs": (),
    "thinking_token_budget": (-1,),
    "truncate_prompt_tokens": (),
    "truncation_side": (),
    "use_beam_search": (False,),
    "vllm_xargs": ({},),
    "watermarking": (False,),
}
LLAMA_CPP: dict[str, Sequence[Any]] = {
    "cache_prompt": (True,),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "grammar": ("",),
    "id_slot": (-1,),
    "json_schema": (),
    "lora": ([],),
    "min_keep": (0,),
    "mirostat": (0,),
    "n_cache_reuse": (0,),
    "n_indent": (0,),
    "n_keep": (0,),
    "n_probs": (0,),
    "post_sampling_probs": (False,),
    "repeat_penalty": (1,),
    "return_progress": (False,),
    "return_tokens": (False,),
    "samplers": (),
    "t_max_predict_ms": (0,),
    "tfs_z": (1,),
    "timings_per_token": (False,),
    "top_n_sigma": (-1,),
    "typical_p": (1,),
    "xtc_probability": (0,),
}
NOT_DONE = {**OPENAI, **VLLM, **LLAMA_CPP}

# Whatever they say, the answer is the same: whose request it is, where it is kept, how it is filed.
WITHOUT_EFFECT = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "request_id",
        "safety_identifier",
        "service_tier",
        "session_id",
        "store",
        "user",
    }
)


def without_neutral(body: dict[str, Any], more: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return a body without what asks for nothing.

    Args:
        more: what the kind of request does not do, besides `NOT_DONE`.

    Raises:
        Refusal: what is not done here is asked for.
    """
    not_done = {**NOT_DONE, **more}
    for name in body.keys() & not_done.keys():
        if body[name] is not None and not any(_equal(body[name], neutral) for neutral in not_done[name]):
            neutral = [shown(each) for each in not_done[name]] + ["null"]
            why = (
                f"{name} is {shown(body[name])}; this server does not do {name}, and takes {' or '.join(neutral)} only"
            )
            raise Refusal(400, why, name, "unsupported_parameter")
    return {name: value for name, value in body.items() if name not in not_done and name not in WITHOUT_EFFECT}


def _equal(value: Any, neutral: Any) -> bool:
    """Whether they are the same in JSON, where 1 and 1.0 are and 0 and false are not."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
