"""The ten weeks by name, for the start page: a week without a lesson yet still has its place."""

WEEKS = {
    1: "Prefill and decode",
    2: "The KV cache",
    3: "Choosing the token",
    4: "Speculative decoding is exact",
    5: "Quantization",
    6: "Batching and paging",
    7: "Prompt caching",
    8: "Mixture of experts",
    9: "Attention and a smaller cache",
    10: "What a token costs",
}
