"""Calls that run an engine's passes until an answer is there: for a script or a notebook, where nobody else does."""

from collections.abc import Iterator, Sequence

from ..sampling.params import SamplingParams
from .intake import Intake
from .request import Output, Request


class BlockingCalls(Intake):
    """`generate` and `stream` of an engine, which has these besides what `Intake` asks for.

    Attributes:
        _undelivered: outputs of other requests, which the next `step` returns.
    """

    _undelivered: list[Output]

    def _pass(self) -> list[Output]:
        """Run one pass."""
        raise NotImplementedError

    def abort(self, request_id: int) -> None:
        """Call a request off; one that has ended already is left alone."""
        raise NotImplementedError

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int | Sequence[int],
        sampling: SamplingParams | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[list[int]]:
        """Return the new tokens of every prompt, in order.

        Args:
            max_new_tokens: one number for all, or one a prompt.
            seeds: one a prompt; None means unseeded.

        Raises:
            ValueError: what `add_request` refuses, before anything runs; numbers that are not one a prompt; a prompt's
                logits that are NaN or infinite.
        """
        limits = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else max_new_tokens
        each_seed: Sequence[int | None] = [None] * len(prompts) if seeds is None else seeds
        for name, given in (("max_new_tokens", limits), ("seeds", each_seed)):
            if len(given) != len(prompts):
                raise ValueError(f"{name} has {len(given)} entries; there are {len(prompts)} prompts, one for each")
        requests: list[Request] = []
        try:
            for prompt, limit, seed in zip(prompts, limits, each_seed, strict=True):
                requests.append(self.request(self.add_request(prompt, limit, sampling, seed)))
            while any(request.finish_reason is None for request in requests):
                self._serve(requests)
                for request in requests:
                    request.raise_error()
        finally:
            for request in requests:
                self.abort(request.id)
        return [request.new_tokens for request in requests]

    def stream(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        sampling: SamplingParams | None = None,
        seed: int | None = None,
    ) -> Iterator[int]:
        """Yield a request's tokens as they come, and serve the others meanwhile; leaving the loop calls it off.

        Raises:
            ValueError: what `add_request` refuses; logits that are NaN or infinite.
        """
        request, at = self.request(self.add_request(prompt, max_new_tokens, sampling, seed)), len(prompt)
        try:
            while True:
                while at < len(request.tokens):  # several, where another's steps have served this request too
                    yield request.tokens[at]
                    at += 1
                request.raise_error()
                if request.finish_reason is not None:
                    return
                self._serve([request])
        finally:
            self.abort(request.id)

    def _serve(self, mine: Sequence[Request]) -> None:
        """Run one pass, and keep what it brings others for whoever steps next."""
        ids = {request.id for request in mine}
        self._undelivered += [output for output in self._pass() if output.id not in ids]
