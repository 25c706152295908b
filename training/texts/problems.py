"""Our own text: small worked problems with short answers, seeded, a tenth of them held out.

Sums and differences are worked column by column, as at school: a small model learns single-digit facts and the order
of the steps quickly, where a result all at once would take it many more examples. Each kind has one fixed format, so
a prompt is unmistakable and its answer can be checked by exact match, steps included. Held out is decided by a hash of
the problem's content, before any random choice, so a held-out problem cannot reach training:

- sum: the unordered pair of numbers. 8 + 3 is held out when 3 + 8 is. Neighbours (8 + 4) may be trained on.
- difference: the ordered pair. The sum that reverses it (for 11 - 3 that is 8 + 3) may be trained on.
- fare: the triple (price, distance, tip). The bare product, price times distance, is met in training with other tips:
  held-out fares test the composition, not the multiplication table.
- question: the unordered pair of numbers, whatever the names and goods. The single numbers, names and goods all occur
  in training.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

KINDS = ("sum", "difference", "fare", "question")
SMALLEST_NUMBER, LARGEST_NUMBER = 10, 99
_NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Julia", "Mark", "Nora", "Tom")
_GOODS = ("pens", "books", "coins", "cups", "hats", "nuts")


@dataclass(frozen=True)
class Problem:
    """One problem. `prompt + answer` is its text; the answer starts with a space and ends with a full stop."""

    prompt: str
    answer: str
    kind: str
    # What the problem is about, without wording: equal keys are the same problem for the held-out split.
    key: str

    @property
    def text(self) -> str:
        """The whole problem as one line, with its newline."""
        return self.prompt + self.answer + "\n"


def is_held_out(problem: Problem) -> bool:
    """Whether the problem belongs to the held-out tenth: decided by its key alone, the same on every machine."""
    digest = hashlib.sha256(problem.key.encode("utf-8")).digest()
    return int.from_bytes(digest[:4], "big") % 10 == 0


def _sum(rng: random.Random) -> Problem:
    """Column by column, units first, the carry written down: each step is a fact of one digit."""
    a, b = rng.randint(SMALLEST_NUMBER, LARGEST_NUMBER), rng.randint(SMALLEST_NUMBER, LARGEST_NUMBER)
    units = a % 10 + b % 10
    carry = " + 1" if units > 9 else ""
    tens = a // 10 + b // 10 + (units > 9)
    worked = f" {a % 10} + {b % 10} = {units}, {a // 10} + {b // 10}{carry} = {tens}, so {a + b}."
    return Problem(f"{a} + {b}:", worked, "sum", f"sum {min(a, b)} {max(a, b)}")


def _difference(rng: random.Random) -> Problem:
    """As a sum, with the borrowed ten written down; a tens digit of 0 is worked out and then left away."""
    b, a = sorted((rng.randint(SMALLEST_NUMBER, LARGEST_NUMBER), rng.randint(SMALLEST_NUMBER, LARGEST_NUMBER)))
    borrow = a % 10 < b % 10
    top = a % 10 + 10 * borrow
    taken = " - 1" if borrow else ""
    tens = a // 10 - b // 10 - borrow
    worked = f" {top} - {b % 10} = {top - b % 10}, {a // 10} - {b // 10}{taken} = {tens}, so {a - b}."
    return Problem(f"{a} - {b}:", worked, "difference", f"difference {a} {b}")


def _fare(rng: random.Random) -> Problem:
    price, distance, tip = rng.randint(2, 9), rng.randint(2, 16), rng.randint(1, 9)
    ride = price * distance
    return Problem(
        f"Taxi: {price} dollars a km, tip {tip}. A ride of {distance} km costs",
        f" {ride} + {tip} = {ride + tip} dollars.",
        "fare",
        f"fare {price} {distance} {tip}",
    )


def _question(rng: random.Random) -> Problem:
    """A comparison, the two numbers written side by side before the verdict."""
    a, b = rng.sample(range(SMALLEST_NUMBER, LARGEST_NUMBER + 1), 2)
    (first, second), goods = rng.sample(_NAMES, 2), rng.choice(_GOODS)
    prompt = f"Who has more, {first} with {a} {goods} or {second} with {b}?"
    answer = f" {a} > {b}, so the first." if a > b else f" {a} < {b}, so the second."
    return Problem(prompt, answer, "question", f"more {min(a, b)} {max(a, b)}")


_MAKERS: dict[str, Callable[[random.Random], Problem]] = {
    "sum": _sum,
    "difference": _difference,
    "fare": _fare,
    "question": _question,
}


def make_problem(rng: random.Random, kind: str, held_out: bool) -> Problem:
    """One problem of the kind from the held-out part or from the training part; draws until it has one."""
    if kind not in _MAKERS:
        raise ValueError(f"kind: {kind!r} is not a kind of problem; allowed are {', '.join(KINDS)}")
    while True:
        problem = _MAKERS[kind](rng)
        if is_held_out(problem) == held_out:
            return problem


def held_out_problems(per_kind: int, seed: int = 0) -> list[Problem]:
    """`per_kind` distinct held-out problems of each kind, kinds in the order of KINDS; the same for the same seed."""
    largest = 100  # the rarest kind has a little more than this many held-out problems
    if not 0 < per_kind <= largest:
        raise ValueError(f"per_kind: {per_kind} is outside 1 to {largest}")
    rng, chosen = random.Random(seed), []
    for kind in KINDS:
        unique: dict[str, Problem] = {}
        while len(unique) < per_kind:
            problem = make_problem(rng, kind, held_out=True)
            unique.setdefault(problem.key, problem)
        chosen += unique.values()
    return chosen


def problem_documents(seed: int, held_out: bool = False) -> Iterator[str]:
    """An endless stream of documents of 6 to 18 problems, one a line, kinds mixed evenly."""
    rng = random.Random(seed)
    while True:
        kinds = [rng.choice(KINDS) for _ in range(rng.randint(6, 18))]
        yield "".join(make_problem(rng, kind, held_out).text for kind in kinds)
