"""course similar: pairs of submissions whose answers look alike, for a person to read.

An answer is its tokens: every name is the same one, every text too, comments are out, and signature and docstring,
which the released stub has, are not counted. Two answers' likeness is the share of runs of five tokens that they
have in common (Jaccard), the idea of MOSS (Schleimer, Wilkerson and Aiken 2003) without its sampling of runs, which
long texts need.

It proves nothing: short functions look alike, and there are few ways to write most of these.
"""

import io
import keyword
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..errors import CourseError
from ..registry import Exercise
from ..text.answers import cut, functions
from .submission import ANSWERED, Submission

Runs = frozenset[tuple[str, ...]]
RUN = 5  # tokens
SHORT = 40  # tokens: of a shorter answer likeness says nothing, and it is left out
_PASSED_OVER = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.ENDMARKER)
CAVEAT = "Likeness is no proof: short functions look alike. Read both, and ask both."


@dataclass(frozen=True)
class Pair:
    """Two students' likeness, 0 to 1, over the runs of tokens of all exercises that both have answered.

    Attributes:
        exercises: each of them with its own likeness, the most alike first.
    """

    one: str
    other: str
    likeness: float
    exercises: tuple[tuple[str, float], ...]


def similar(submissions: Iterable[Submission], exercises: Sequence[Exercise]) -> list[Pair]:
    """Return every pair of students with something to compare in these exercises, the most alike first."""
    runs = {each.student: dict(_runs_of(each, exercises)) for each in submissions}
    found = [_pair(one, other, runs[one], runs[other]) for one, other in combinations(sorted(runs), 2)]
    return sorted((pair for pair in found if pair.exercises), key=lambda pair: -pair.likeness)


def _pair(one: str, other: str, mine: Mapping[str, Runs], others: Mapping[str, Runs]) -> Pair:
    found, common, every = [], 0, 0
    for name in mine.keys() & others.keys():
        n_common = len(mine[name] & others[name])
        n_every = len(mine[name]) + len(others[name]) - n_common
        found.append((name, n_common / n_every))
        common, every = common + n_common, every + n_every
    return Pair(one, other, common / max(every, 1), tuple(sorted(found, key=lambda each: (-each[1], each[0]))))


def tokens(code: str) -> list[str]:
    """Return the tokens of code: every name NAME, every text TEXT; comments and line ends are none."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
            found.append("NAME")
        elif token.type == tokenize.STRING:
            found.append("TEXT")
        elif token.type in (tokenize.INDENT, tokenize.DEDENT):
            found.append(tokenize.tok_name[token.type])
        elif token.type not in _PASSED_OVER:
            found.append(token.string)
    return found


def _runs_of(submission: Submission, exercises: Sequence[Exercise]) -> Iterator[tuple[str, Runs]]:
    for exercise in exercises:
        if submission.states.get(exercise.number) == ANSWERED:
            text = submission.answers[exercise.number].get(exercise.file, "")
            written = _tokens_of(text, exercise.targets)
            if len(written) >= SHORT:
                yield exercise.name, frozenset(tuple(written[i : i + RUN]) for i in range(len(written) - RUN + 1))


def _tokens_of(text: str, asked: Iterable[str]) -> list[str]:
    """The tokens of the bodies asked: signatures and docstrings are the lesson's."""
    found: list[str] = []
    try:
        there = functions(text)
        for target in asked:
            if target in there:
                found += tokens("\n".join(cut(text, there[target]).body or ()) + "\n")
    except (CourseError, tokenize.TokenError, SyntaxError):  # nothing to compare in what cannot be read
        return []
    return found
