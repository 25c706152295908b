"""Which of the student's exercises makes a text wrong or breaks the engine: those whose tests fail, not who stood near.

Where an error comes up says little: a scheduler that plans too many tokens breaks the cache, and a wrong cache breaks
attention. So the tests of the exercises that ran are asked.
"""

from collections.abc import Collection
from dataclasses import dataclass

from ..grading.implementation import chosen
from ..grading.status import standings
from ..registry import Exercise, registry


@dataclass(frozen=True)
class Suspects:
    """What the tests say of the student's exercises.

    Attributes:
        tested: those whose tests ran.
        failing: those among them whose tests fail.
    """

    tested: tuple[Exercise, ...]
    failing: tuple[Exercise, ...]

    def in_words(self) -> str:
        """Return a sentence that names the exercises to mend, and accuses nobody whose tests pass."""
        if self.failing:
            names = _listed([f"{each.number} ({each.name})" for each in self.failing])
            are, them = ("exercises", "those") if len(self.failing) > 1 else ("exercise", "that")
            return f"The tests of your {are} {names} fail: mend {them} first."
        if self.tested:
            numbers = _listed([each.number for each in self.tested])
            return f"Yet the tests of your exercises that ran all pass ({numbers}): what is wrong here they do not see."
        return "`course status` runs the tests of each exercise."


def suspects(impl: str, ran: Collection[str] | None = None) -> Suspects:
    """Run the tests of the student's exercises and return what they say.

    Args:
        impl: whose answers.
        ran: numbers of the exercises that did any work; None: not known, so all that are written are tested.
    """
    asked = [each for each in registry() if ran is None or each.number in ran]
    found = [each for each in standings(asked, chosen(impl)) if each.state != "not written"]
    failing = tuple(each.exercise for each in found if each.state == "fails")
    return Suspects(tuple(each.exercise for each in found), failing)


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
