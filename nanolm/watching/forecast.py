"""How long the next pass should take, from those before it: a fixed time, and a time for each token."""


class Forecast:
    """A line through the passes so far, seconds = fixed + per_token · tokens, in which older passes count for less.

    Args:
        memory: weight of a pass once another has come, above 0 and below 1.
    """

    def __init__(self, memory: float = 0.97) -> None:
        if not 0 < memory < 1:
            raise ValueError(f"memory is {memory}; the weight of an older pass is above 0 and below 1")
        self.memory = memory
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def seconds(self, n_tokens: int) -> float | None:
        """Return what a pass over so many tokens should take; None before there was any pass."""
        if not self._n:
            return None
        mean_x, mean_y = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - mean_x**2
        # Passes of one size alone say nothing of another size; a pass over more tokens is never predicted faster.
        slope = max(0.0, (self._xy / self._n - mean_x * mean_y) / spread) if spread > 1e-9 else 0.0
        if mean_y < slope * mean_x:
            # No pass takes less than nothing: one slow beginning would else foretell 0 for all that follow.
            return n_tokens * self._xy / self._xx
        return mean_y + slope * (n_tokens - mean_x)

    def add(self, n_tokens: int, seconds: float) -> None:
        """Count a pass that has run."""
        keep = self.memory
        self._n, self._x, self._y = self._n * keep + 1, self._x * keep + n_tokens, self._y * keep + seconds
        self._xx, self._xy = self._xx * keep + n_tokens**2, self._xy * keep + n_tokens * seconds
