"""llama.cpp by the functions of its library, which the package llama-cpp-python carries.

Many texts share one context; a batch is a list of (text, position, token), as in llama.cpp's own server: each pass
takes the next token of every running text and as much of the waiting prompts as fits.
"""

import ctypes
import time
from pathlib import Path
from typing import Any

import numpy as np

from nanolm.workload import Trace

from .engines import SLOTS, Peer, Prompt

PASS_TOKENS = 512
_CONTEXT = 8192


def llama_cpp(precision: str, path: Path, threads: int) -> Peer:
    """Return llama.cpp with a GGUF file."""
    return _LlamaCpp(path, threads, precision == "float32")


class _LlamaCpp:
    def __init__(self, path: Path, threads: int, wide_cache: bool) -> None:
        import llama_cpp

        self.lib: Any = llama_cpp
        self.silent = llama_cpp.llama_log_callback(lambda level, text, data: None)  # kept: the library calls it
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_seq_max, options.kv_unified = _CONTEXT, SLOTS, True
        options.n_batch = options.n_ubatch = PASS_TOKENS
        options.n_threads = options.n_threads_batch = threads
        if wide_cache:  # half of that is its own choice
            options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            raise ValueError(f"llama.cpp cannot open {path}")
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(PASS_TOKENS, 0, 1)

    def prefill(self, prompt: Prompt) -> float:
        self._clear()
        start = time.perf_counter()
        self._run([(0, i, token, i == len(prompt) - 1) for i, token in enumerate(prompt)])
        return time.perf_counter() - start

    def decode(self, prompts: list[Prompt], n_tokens: int) -> float:
        self._clear()
        tokens = [self._prompt(text, prompt) for text, prompt in enumerate(prompts)]
        start, at = time.perf_counter(), len(prompts[0])
        for step in range(n_tokens):
            tokens = self._run([(text, at + step, token, True) for text, token in enumerate(tokens)])
        return (time.perf_counter() - start) / n_tokens

    def serve(self, trace: Trace) -> float:
        self._clear()
        start, waiting, running = time.perf_counter(), list(trace), {}
        while waiting or running:
            pieces = [(text, at, token, True) for text, (at, token, left) in running.items()]
            texts, free = list(running), [text for text in range(SLOTS) if text not in running]
            while waiting and free and len(pieces) + waiting[0].n_prompt_tokens <= PASS_TOKENS:
                arrival, text = waiting.pop(0), free.pop(0)
                last = arrival.n_prompt_tokens - 1
                pieces += [(text, i, token, i == last) for i, token in enumerate(arrival.prompt or ())]
                running[text] = (last, 0, arrival.n_output_tokens)
                texts.append(text)
            for text, token in zip(texts, self._run(pieces), strict=True):
                at, _, left = running[text]
                running[text] = (at + 1, token, left - 1)
                if left == 1:
                    del running[text]
                    self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(self.context), text, -1, -1)
        return time.perf_counter() - start

    def text(self, prompt: Prompt, n_tokens: int) -> list[int]:
        self._clear()
        tokens = [self._prompt(0, prompt)]
        for step in range(n_tokens - 1):
            tokens += self._run([(0, len(prompt) + step, tokens[-1], True)])
        return tokens

    def _prompt(self, text: int, prompt: Prompt) -> int:
        return self._run([(text, i, token, i == len(prompt) - 1) for i, token in enumerate(prompt)])[0]

    def _run(self, pieces: list[tuple[int, int, int, bool]]) -> list[int]:
        """Run (text, position, token, whether its logits are wanted); return the likeliest tokens of those wanted."""
        batch = self.batch
        batch.n_tokens = len(pieces)
        for i, (text, at, token, wanted) in enumerate(pieces):
            batch.token[i], batch.pos[i], batch.logits[i] = token, at, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, text
        status = self.lib.llama_decode(self.context, batch)
        if status:
            raise ValueError(f"llama_decode answered {status} to a pass of {len(pieces)} tokens")
        return [self._likeliest(i) for i, piece in enumerate(pieces) if piece[3]]

    def _likeliest(self, i: int) -> int:
        logits = self.lib.llama_get_logits_ith(self.context, i)
        return int(np.ctypeslib.as_array(logits, (self.n_vocab,)).argmax())

    def _clear(self) -> None:
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
