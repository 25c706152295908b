"""How a model's rotary positions were stretched to a longer context."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RopeScaling:
    """A way to turn by other angles than position · theta^(-2i/H); `attention.rope_scaling` has the formulas.

    Attributes:
        kind: "linear", "dynamic", "proportional", "yarn", "llama3" or "longrope".
        original: positions of the context before it was stretched.
        values: the other numbers, by their names in a config.json; those that the file leaves out are not there.
        max_positions: of the stretched context, which some ways compare with `original`.
    """

    kind: str
    original: int
    values: tuple[tuple[str, Any], ...] = ()
    max_positions: int = 0

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return a number by its name in a config.json; `otherwise` where the file has none or null."""
        value = dict(self.values).get(name)
        return otherwise if value is None else value

    @property
    def follows_length(self) -> bool:
        """Whether the angles change with the length of the text, once it is longer than `original`."""
        return self.kind in ("dynamic", "longrope")
