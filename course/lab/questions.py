"""The questions of the self-test: the right answer of each, and the wrong ones that people give, with their reasons."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHAPES, SOFTMAX, INDEXING = "shapes", "softmax", "indexing"


@dataclass(frozen=True)
class Question:
    """A question with one right answer.

    Attributes:
        topic: SHAPES, SOFTMAX or INDEXING.
        right: the answer.
        mistakes: pairs of an answer that people give and what they probably thought.
        think: said of every other answer: where to look.
        ask: makes an answer of what was typed, where that is a function.
    """

    topic: str
    right: Any
    mistakes: list[tuple[Any, str]]
    think: str
    ask: Callable[[Any], Any] = field(default=lambda typed: typed)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


_X = np.arange(2 * 4 * 6).reshape(2, 4, 6)  # question 4: 2 texts, 4 positions, 6 numbers each
_PROBS = np.arange(15).reshape(3, 5) / 10  # question 14
_TOKENS = np.array([4, 0, 2])
_SCORES = np.array([[1.0, 2.0, 3.0], [1000.0, 1001.0, 1002.0]])  # question 8
_ONES = np.ones((4, 4), bool)

QUESTIONS: dict[int, Question] = {
    1: Question(
        SHAPES,
        (4, 5),
        [
            ((3, 3), "the inner two lengths, 3 and 3, are summed away; the outer two stay"),
            ((5, 4), "rows come from the left matrix and columns from the right one"),
            ((4, 3, 5), "the 3 is summed over, so it is gone from the result"),
        ],
        "of (n, m) @ (m, k) the m goes and (n, k) stays",
    ),
    2: Question(
        SHAPES,
        (2, 8, 16, 16),
        [
            ((2, 8, 64, 64), "of the last two axes the inner lengths go: 64 is summed over"),
            ((16, 16), "only the last two axes are multiplied; 2 and 8 stay in front, a product for each"),
            ((2, 8, 16, 64), "that is the left one's shape; the right one's last axis takes the place of 64"),
        ],
        "@ multiplies the last two axes, once for each entry of the axes before them",
    ),
    3: Question(
        SHAPES,
        (4, 3),
        [
            ((3, 4), "axes are lined up from the right: 3 with the 1, then nothing with the 4"),
            ((4,), "(4, 1) has two axes, and so has the result"),
            ((3,), "the 4 does not disappear: every row gets the same 3 numbers added"),
            ((4, 1), "an axis of length 1 is repeated to the other's length, here 3"),
        ],
        "line the shapes up from the right; where one length is 1 or missing, the other counts",
    ),
    4: Question(
        SHAPES,
        _X.reshape(2, 4, 2, 3).transpose(0, 2, 1, 3),
        [
            (
                _X.reshape(2, 2, 4, 3),
                "the shape is right and the numbers are mixed: reshape keeps the order in memory, so a head gets "
                "numbers of two positions. Split the last axis first, then exchange two axes",
            ),
            (_X.reshape(2, 4, 2, 3), "the last axis is split; now let the heads come before the positions"),
            (
                _X.reshape(2, 4, 3, 2).transpose(0, 3, 1, 2),
                "a head is 3 numbers that stand side by side, not every second",
            ),
        ],
        "reshape to (2, 4, 2, 3), then exchange the axes of positions and heads",
    ),
    5: Question(
        SHAPES,
        32_768,
        [
            (8_192, "so many numbers; each takes 4 bytes"),
            (65_536, "float32 has 32 bits, which are 4 bytes; with 8 it is float64"),
            (16_384, "float32 has 32 bits, which are 4 bytes; with 2 it is float16"),
            (262_144, "those are bits; 8 of them are a byte"),
        ],
        "numbers are rows times columns; float32 takes 4 bytes a number",
    ),
    6: Question(
        SOFTMAX,
        (0.25, 0.75),
        [
            ((1, 3), "those are the exponentials; divide by their sum, so that they add up to 1"),
            ((0, 1), "softmax gives shares; only where one score is far above the other they become 0 and 1"),
            ((0.75, 0.25), "the larger score has the larger share"),
            ((1 / math.e, 1 - 1 / math.e), "exp(0) is 1 and exp(ln 3) is 3"),
        ],
        "exp of each score, divided by the sum of both: exp(0) = 1, exp(ln 3) = 3",
    ),
    7: Question(
        SOFTMAX,
        (0.25, 0.75),
        [
            ((0.5, 0.5), "the difference of the two scores is what counts, and that is still ln 3"),
            ((0, 1), "the difference of the two scores is what counts, not their size"),
        ],
        "exp(s + 100) is exp(s) · exp(100), and the factor stands above and below the line",
    ),
    8: Question(
        SOFTMAX,
        _softmax(_SCORES),
        [
            (
                np.array([[0.09003057, 0.24472847, 0.66524096], [np.nan] * 3]),
                "exp(1000) is too large for a float, and inf / inf is nan: subtract each row's largest score first",
            ),
            (
                np.exp(_SCORES - _SCORES.max()) / np.exp(_SCORES - _SCORES.max()).sum(),
                "all shares together add up to 1, and each row should: sum over the last axis, with keepdims=True",
            ),
            (
                np.array([[np.nan] * 3, [0.09003057, 0.24472847, 0.66524096]]),
                "the largest of all scores was subtracted: the first row's exponentials are all 0. Take each row's own",
            ),
            (
                _softmax(_SCORES.T).T,
                "the columns add up to 1: a row of scores is one query, so sum over the last axis",
            ),
            (
                np.exp(_SCORES - _SCORES.max(-1, keepdims=True)),
                "the exponentials are safe now; divide each row by its sum",
            ),
        ],
        "subtract each row's maximum, take exp, divide by each row's sum; keepdims=True keeps the rows apart",
        ask=lambda function: function(_SCORES),
    ),
    9: Question(
        SOFTMAX,
        1 / (1 + math.exp(-4)),
        [
            (1 / (1 + math.exp(-1)), "the scores are divided by T, and 2 / 0.5 is 4, not 1"),
            (1 / (1 + math.exp(-2)), "that is the share at T = 1; divide the scores by 0.5 first"),
            (1 / (1 + math.exp(4)), "that is the other one's share; the larger score has the larger"),
        ],
        "divide both scores by T, then softmax: exp(4) / (exp(4) + exp(0))",
    ),
    10: Question(
        SOFTMAX,
        (0.5, 0.5, 0),
        [
            ((1 / 3, 1 / 3, 1 / 3), "exp(-inf) is 0: a hidden key has no share"),
            (
                tuple(np.exp([1, 1, 0]) / np.exp([1, 1, 0]).sum()),
                "a score of 0 hides nothing, exp(0) is 1; -inf does, exp(-inf) is 0",
            ),
            ((0.5, 0.5, -math.inf), "exp(-inf) is 0"),
        ],
        "exp(-inf) is 0, so the third has no share and the other two are equal",
    ),
    11: Question(
        INDEXING,
        (15, 19, 23),
        [
            ((3, 7, 11), "that is block 0; counting starts at 0, so a[1] is the second"),
            (
                (20, 21, 22, 23),
                "that is the last row; -1 stands at the last axis and takes the last number of each row",
            ),
            ((12, 16, 20), "that is the first number of each row; -1 is the last"),
            (23, "the colon keeps the axis in the middle: three numbers"),
        ],
        "a[1] is 12 to 23 in three rows of four; of each row the last",
    ),
    12: Question(
        INDEXING,
        (30, 40, 50),
        [
            ((30, 40, 50, 60), "the end is not included: 2, 3 and 4"),
            ((20, 30, 40), "counting starts at 0: number 2 is the third"),
            ((20, 30, 40, 50), "counting starts at 0, and the end is not included"),
        ],
        "from number 2, counted from 0, up to and without number 5",
    ),
    13: Question(
        INDEXING,
        (2, 5),
        [
            ((5, 2), "the block first: 37 // 16 is 2, and 37 % 16 is 5"),
            ((3, 5), "blocks are counted from 0 too"),
            ((3, 6), "both are counted from 0"),
            ((2, 6), "places are counted from 0: position 32 is at place 0"),
        ],
        "37 // 16 and 37 % 16",
    ),
    14: Question(
        INDEXING,
        _PROBS[np.arange(3), _TOKENS],
        [
            (
                _PROBS[:, _TOKENS],
                "a colon takes every row for each token; give the row's numbers beside the tokens: np.arange(3)",
            ),
            (_PROBS[_TOKENS % 3], "tokens are columns: the index of the row comes first"),
        ],
        "two lists of indices of one length are taken in pairs: probs[rows, columns]",
    ),
    15: Question(
        INDEXING,
        np.tril(_ONES),
        [
            (np.triu(_ONES), "rows are queries: row 0 may see key 0 only, and here it sees all"),
            (np.tril(_ONES, -1), "a position may see itself: the diagonal is True too"),
            (np.triu(_ONES, 1), "that is what is hidden; asked is what may be seen"),
            (_ONES, "nothing is hidden here"),
        ],
        "row i is True up to column i, itself included: np.tril, or compare np.arange(4)[:, None] with np.arange(4)",
    ),
    16: Question(
        INDEXING,
        (1, 3),
        [
            ((3, 1), "that is the right pair, smallest first; argsort sorts upwards, so turn it round"),
            ((0.5, 0.35), "those are the values; asked is where they stand"),
            ((2, 4), "counted from 0"),
        ],
        "0.5 stands at place 1 and 0.35 at place 3",
    ),
}
