"""The Triton kernels beside torch, a copy and a plain product."""
