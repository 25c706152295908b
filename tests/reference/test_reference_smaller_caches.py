"""Latent attention and sliding windows against transformers' DeepSeek-V3 and Mistral, with the same weights."""

import pytest
import torch
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm.budget import LatentAttention
from nanolm.checkpoint import to_hf_tensors
from nanolm.mla import MLA, MLACache
from nanolm.window import WindowKVCache

# Theirs keeps cos and sin in float32, in a float64 model too.
TOLERANCE = 1e-5


@pytest.mark.parametrize("q_latent_dim", [0, 7])
def test_latent_attention_agrees_with_deepseek_v3_in_passes_of_any_size(transformers, q_latent_dim):
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

    config, latent = tiny_config(norm_eps=1e-6), LatentAttention(5, 2, 3, q_latent_dim)
    theirs_config = transformers.DeepseekV3Config(
        hidden_size=20,
        num_attention_heads=4,
        num_key_value_heads=4,
        q_lora_rank=q_latent_dim or None,
        kv_lora_rank=5,
        qk_nope_head_dim=6,
        qk_rope_head_dim=2,
        v_head_dim=3,
        rope_interleave=False,  # rotary pairs half a head apart, as here
        attn_implementation="eager",
    )
    theirs = deepseek.DeepseekV3Attention(theirs_config, 0).double().eval()
    ours = MLA(config, latent, 0).double()
    ours.load_state_dict(dict(zip(ours.state_dict(), theirs.state_dict().values(), strict=True)))

    x = torch.randn(2, 9, 20, dtype=torch.float64)
    turns = deepseek.DeepseekV3RotaryEmbedding(theirs_config)(x, torch.arange(9)[None])
    hidden = torch.full((9, 9), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    cache, found = MLACache(config, latent, 2, 9, torch.float64), []
    with torch.inference_mode():
        expected, _ = theirs(x, turns, hidden)
        for chunk in x.split([4, 1, 3, 1], dim=1):
            found.append(ours(chunk, cache, cache.offset))
            cache.advance(chunk.shape[1])
    assert (torch.cat(found, dim=1) - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize("window", [1, 3, 20])
def test_a_ring_of_keys_agrees_with_mistral_s_sliding_window(transformers, window):
    ours = tiny_model()
    shape = {name: value for name, value in ours.config.to_hf().items() if name not in ("architectures", "model_type")}
    theirs = transformers.MistralForCausalLM(transformers.MistralConfig(**shape, sliding_window=window)).double()
    theirs.load_state_dict(to_hf_tensors(ours), strict=False)
    tokens, cache, found = tokens_of(2, 12), WindowKVCache(ours.config, window, 2, torch.float64), []
    with torch.inference_mode():
        expected = theirs.eval()(tokens).logits
        for chunk in tokens.split([7, 1, 1, 3], dim=1):
            found.append(ours(chunk, cache))
            cache.advance(chunk.shape[1])
    off = (torch.cat(found, dim=1) - expected).abs().max() / expected.abs().max()
    assert off < TOLERANCE
