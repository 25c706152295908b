# %% a list of filters
@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: Sequence[int] | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    stop_token_ids: Sequence[int] = ()
    min_new_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, check in FIELD_CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def adjusts(self) -> bool:
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        return any(penalties) or bool(self.logit_bias) or self.min_new_tokens > 0

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        return (*(of_the_model if self.end_tokens is None else self.end_tokens), *self.stop_token_ids)

    def probs(self, logits):
        result = temperature_probs(logits, self.temperature)
        steps = [(top_k_filter, self.top_k), (top_p_filter, self.top_p), (min_p_filter, self.min_p)]
        for step, value in steps:
            if value is not None:
                result = step(result, value)
        return result


# %% values that change nothing in place of None
@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: Sequence[int] | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    stop_token_ids: Sequence[int] = ()
    min_new_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, check in FIELD_CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def adjusts(self) -> bool:
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        return any(penalties) or bool(self.logit_bias) or self.min_new_tokens > 0

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        return (*(of_the_model if self.end_tokens is None else self.end_tokens), *self.stop_token_ids)

    def probs(self, logits: Float[Tensor, "... V"]) -> Float[Tensor, "... V"]:
        k = logits.shape[-1] if self.top_k is None else self.top_k
        probs = top_k_filter(temperature_probs(logits, self.temperature), k)
        probs = top_p_filter(probs, 1.0 if self.top_p is None else self.top_p)
        return min_p_filter(probs, 0.0 if self.min_p is None else self.min_p)


# %% row by row, with keyword arguments
@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: Sequence[int] | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    stop_token_ids: Sequence[int] = ()
    min_new_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, check in FIELD_CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def adjusts(self) -> bool:
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        return any(penalties) or bool(self.logit_bias) or self.min_new_tokens > 0

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        return (*(of_the_model if self.end_tokens is None else self.end_tokens), *self.stop_token_ids)

    def probs(self, logits):
        if logits.ndim > 1:
            return torch.stack([self.probs(row) for row in logits])
        p = temperature_probs(logits=logits, temperature=self.temperature)
        if self.top_k:
            p = top_k_filter(probs=p, k=self.top_k)
        if self.top_p:
            p = top_p_filter(probs=p, p=self.top_p)
        if self.min_p:
            p = min_p_filter(probs=p, min_p=self.min_p)
        return p


# %% a helper beside the class, and a print
def _maybe(filter_, probs, value):
    print(filter_.__name__, value)
    return probs if value is None else filter_(probs, value)


@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: Sequence[int] | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    stop_token_ids: Sequence[int] = ()
    min_new_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, check in FIELD_CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def adjusts(self) -> bool:
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        return any(penalties) or bool(self.logit_bias) or self.min_new_tokens > 0

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        return (*(of_the_model if self.end_tokens is None else self.end_tokens), *self.stop_token_ids)

    def probs(self, logits):
        probs = temperature_probs(logits, self.temperature)
        probs = _maybe(top_k_filter, probs, self.top_k)
        probs = _maybe(top_p_filter, probs, self.top_p)
        return _maybe(min_p_filter, probs, self.min_p)


# %% everything by hand, on one sort
@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: Sequence[int] | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    stop_token_ids: Sequence[int] = ()
    min_new_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, check in FIELD_CHECKS.items():
            object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def adjusts(self) -> bool:
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        return any(penalties) or bool(self.logit_bias) or self.min_new_tokens > 0

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        return (*(of_the_model if self.end_tokens is None else self.end_tokens), *self.stop_token_ids)

    def probs(self, logits):
        probs = temperature_probs(logits, self.temperature)
        values, order = probs.sort(dim=-1, descending=True, stable=True)
        V = probs.shape[-1]
        ranks = torch.arange(V)
        if self.top_k is not None:
            values = values * (ranks < self.top_k)
            values = values / values.sum(-1, keepdim=True)
        if self.top_p is not None and self.top_p < 1:
            before = values.cumsum(-1) - values
            values = values * ((before < self.top_p - 1e-9) | (ranks == 0))
            values = values / values.sum(-1, keepdim=True)
        if self.min_p is not None:
            values = values * (values >= self.min_p * values[..., :1])
            values = values / values.sum(-1, keepdim=True)
        return torch.zeros_like(probs).scatter(-1, order, values)
