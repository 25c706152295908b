"""Where the last few tokens of a growing text stood before: prompt look-up without reading the text again."""

from collections.abc import Sequence


class NgramIndex:
    """Finds what `prompt_lookup` finds, in a text that it is told bit by bit.

    It keeps where each run of up to max_ngram tokens was last followed by something: max_ngram entries a token at
    most, some 250 bytes with 3. A draft then costs max_ngram look-ups, however long the text.

    Args:
        max_ngram: most tokens that have to match.

    Attributes:
        tokens: the text so far.

    Raises:
        ValueError: max_ngram below 1.
    """

    def __init__(self, max_ngram: int = 3) -> None:
        if max_ngram < 1:
            raise ValueError(f"max_ngram is {max_ngram}; at least 1 token must match")
        self.max_ngram = max_ngram
        self.tokens: list[int] = []
        self._end_of: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        """Tokens of the text so far."""
        return len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the text."""
        text, end_of = self.tokens, self._end_of
        for token in tokens:
            # Noted once something follows: so the last tokens, which are looked up, never match themselves.
            end = len(text)
            for start in range(max(0, end - self.max_ngram), end):
                end_of[tuple(text[start:])] = end
            text.append(token)

    def propose(self, gamma: int) -> list[int]:
        """Return `prompt_lookup(tokens, gamma, max_ngram)`: up to γ tokens that followed the last ones before.

        Raises:
            ValueError: gamma negative.
        """
        if gamma < 0:
            raise ValueError(f"gamma is {gamma}; a round drafts 0 or more tokens")
        for start in range(max(0, len(self.tokens) - self.max_ngram), len(self.tokens)):  # the longest run first
            end = self._end_of.get(tuple(self.tokens[start:]))
            if end is not None:
                return self.tokens[end : end + gamma]
        return []
