"""What the texts say: whether the parts write alone what the reference writes, and together what they write alone."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from ..grading.assembly import YOURS
from .suspects import Suspects

# Texts may differ at near ties, where an answer takes its sums in another order; so many must be equal.
EQUAL_SHARE = 0.9


@dataclass(frozen=True)
class Check:
    """What was compared.

    Attributes:
        equal: by the way of writing, (texts that equal those they must equal, all). "alone", by `generate`: the
            reference's. "tight" and "chosen", by engines: the student's own alone.
        parts: as dictionaries (number, part, whose, why, calls by place).
        plan: (what, the student's value, the reference's).
        hashes: of the texts written alone, one each.
        n_leaked: blocks of the tight cache that were not given back when all had ended.
        suspects: where a text differs, what the tests of the student's exercises say; None: they were not run.
    """

    equal: dict[str, tuple[int, int]]
    parts: list[dict[str, Any]]
    plan: list[tuple[str, str, str]]
    hashes: list[str]
    n_leaked: int
    suspects: Suspects | None = None

    @classmethod
    def of(cls, mine: dict[str, Any], reference: dict[str, Any]) -> "Check":
        """Return the comparison of what two workers found."""
        texts = mine["texts"]
        pairs = {
            "alone": (texts["alone"], reference["texts"]["alone"]),
            "tight": (texts["tight"], texts["expected in tight"]),
            "chosen": (texts["chosen"], texts["alone"]),
        }
        equal = {
            name: (sum(one == other for one, other in zip(*both, strict=True)), len(both[0]))
            for name, both in pairs.items()
        }
        lines = zip(mine["plan"], reference["plan"], strict=True)
        plan = [(what, value, expected) for (what, value), (_, expected) in lines]
        return cls(equal, mine["parts"], plan, [text_hash(text) for text in texts["alone"]], mine["leaked"])

    @property
    def is_right(self) -> bool:
        """Whether everything was written as it must be, near ties aside, and every block given back."""
        return not self.wrong

    @property
    def is_exact(self) -> bool:
        """Whether every single text is what it must be, and every block was given back."""
        return not self.n_leaked and all(n == of for n, of in self.equal.values())

    @property
    def wrong(self) -> str:
        """The first way of writing that went wrong; empty if none did."""
        few = (name for name, (n, of) in self.equal.items() if n < EQUAL_SHARE * of)
        return next(few, "tight" if self.n_leaked else "")

    @property
    def working_parts(self) -> list[dict[str, Any]]:
        """The parts that did any work."""
        return [part for part in self.parts if any(part["calls"].values())]

    @property
    def own_parts(self) -> list[dict[str, Any]]:
        """The student's among them."""
        return [part for part in self.working_parts if part["whose"] == YOURS]

    @property
    def exercises_in_texts(self) -> set[str]:
        """The numbers of the student's exercises that had work in writing the texts, and not in the plan alone."""
        return {part["number"] for part in self.own_parts if any(part["calls"][place] for place in self.equal)}

    @property
    def idle_exercises(self) -> set[str]:
        """The numbers of the student's exercises of which nothing had any work."""
        mine = {part["number"] for part in self.parts if part["whose"] == YOURS}
        return mine - {part["number"] for part in self.working_parts}

    @property
    def where_it_went_wrong(self) -> list[str]:
        """The exercises whose parts ran where it first went wrong, those that ran nowhere before if there are any."""
        order = list(self.equal)
        right_before = order[: order.index(self.wrong)] if self.wrong else []
        there = [part for part in self.own_parts if self.wrong and part["calls"][self.wrong]]
        only_there = [part for part in there if not any(part["calls"][place] for place in right_before)]
        return sorted({part["number"] for part in only_there or there}, key=by_number)

    def in_words(self) -> str:
        """Return the verdict on the texts."""
        (alone, of), (tight, of_tight), (chosen, _) = (self.equal[name] for name in ("alone", "tight", "chosen"))
        words = f"Written alone, {alone} of {of} texts equal the reference's; "
        words += f"in a tight cache {tight} of {of_tight} equal those written alone, and as chosen {chosen} of {of}."
        if self.n_leaked > 0:
            words += f" Of the tight cache {self.n_leaked} blocks were never given back."
        elif self.n_leaked:
            words += f" Of the tight cache {-self.n_leaked} blocks were given back that the prefix cache still holds."
        if not self.is_right:
            ways = {"alone": "even alone", "tight": "together in a tight cache", "chosen": "with your choices"}
            words += f" A part is wrong {ways[self.wrong]}, so the speed counts for nothing."
            return f"{words} {self._whom_to_look_at()}"
        if not self.is_exact:
            failing = self.suspects.in_words() if self.suspects is not None and self.suspects.failing else ""
            words += f" {failing or 'One that differs is a near tie, or a part that is wrong now and then.'}"
        return f"{words} Rules that change no text, such as whose turn it is, are checked by `course status` alone."

    def _whom_to_look_at(self) -> str:
        if self.suspects is not None and self.suspects.failing:
            return self.suspects.in_words()
        words = self.suspects.in_words() if self.suspects is not None else "`course status` runs the tests of each."
        there = ", ".join(self.where_it_went_wrong)
        return f"{words} What ran where it went wrong, and nowhere before: {there}." if there else words


def by_number(number: str) -> list[int]:
    """Return the order of exercises, week before place, for `sorted`."""
    return [int(each) for each in number.split(".")]


def text_hash(text: list[int]) -> str:
    """Return a short name of a text that no other has."""
    return hashlib.sha256(json.dumps(text).encode()).hexdigest()[:16]
