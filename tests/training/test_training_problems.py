"""The generator of worked problems: seeded, right, and split before any random choice."""

import itertools
import random
import re

import pytest

from training.texts.problems import KINDS, held_out_problems, is_held_out, make_problem, problem_documents


def sample(kind, held_out, count=300, seed=5):
    rng = random.Random(seed)
    return [make_problem(rng, kind, held_out) for _ in range(count)]


def steps_hold(worked):
    """Whether each "left = right" of a worked answer is true, its left side added up sign by sign."""
    for step in re.findall(r"[\d +-]+ = \d+", worked):
        left, right = step.split("=")
        if sum(int(number) for number in re.findall(r"[+-]?\d+", left.replace(" ", ""))) != int(right):
            return False
    return True


def answer_by_reading(problem):
    """The result (sum, difference) or the whole answer, worked out from the prompt's words by another way than ours."""
    numbers = [int(number) for number in re.findall(r"\d+", problem.prompt)]
    if problem.kind == "sum":
        return sum(numbers)
    if problem.kind == "difference":
        return numbers[0] - numbers[1]
    if problem.kind == "fare":
        price, tip, distance = numbers
        ride = sum([price] * distance)
        return f"{ride} + {tip} = {ride + tip} dollars."
    verdict = ["second", "first"][numbers[0] > numbers[1]]
    return f"{numbers[0]} {'<>'[numbers[0] > numbers[1]]} {numbers[1]}, so the {verdict}."


def test_documents_repeat_with_the_same_seed():
    first, second = (list(itertools.islice(problem_documents(seed=3), 20)) for _ in range(2))
    assert first == second, "one seed gave two streams"


def test_documents_differ_with_another_seed():
    assert next(problem_documents(seed=3)) != next(problem_documents(seed=4)), "the seed is not used"


def test_no_held_out_problem_occurs_in_the_training_stream():
    held_out = {problem.prompt for kind in KINDS for problem in sample(kind, held_out=True, count=2000)}
    documents = itertools.islice(problem_documents(seed=9), 400)
    lines = [line for document in documents for line in document.splitlines()]
    leaked = [line for line in lines if any(line.startswith(prompt) for prompt in held_out if prompt[:4] == line[:4])]
    assert not leaked, f"held-out problems in the training stream: {leaked[:3]}"


def test_a_sum_is_held_out_with_both_orders_of_its_numbers():
    for problem in sample("sum", held_out=True):
        a, b = re.findall(r"\d+", problem.prompt)
        turned = f"{b} + {a}:"
        assert not any(other.prompt == turned for other in sample("sum", held_out=False, count=50)), turned
        assert problem.key == f"sum {min(int(a), int(b))} {max(int(a), int(b))}", (
            "the order of the numbers is in the key"
        )


def test_about_a_tenth_of_each_kind_is_held_out():
    rng = random.Random(2)
    for kind in KINDS:
        keys = {make_problem(rng, kind, held_out=False).key for _ in range(3000)}
        others = {make_problem(rng, kind, held_out=True).key for _ in range(3000)}
        assert not keys & others, f"{kind}: a problem is in both parts"
    split = [is_held_out(problem) for problem in sample("sum", held_out=False, count=500)]
    assert not any(split), "make_problem gave a held-out problem for training"


@pytest.mark.parametrize("kind", ["sum", "difference", "fare", "question"])
def test_answers_are_right_when_the_prompt_is_read_by_someone_else(kind):
    for problem in sample(kind, held_out=False):
        said, expected = problem.answer.strip(), answer_by_reading(problem)
        if kind in ("sum", "difference"):
            assert said.endswith(f", so {expected}."), problem.text
        else:
            assert said == expected, problem.text
        assert steps_hold(said), f"a step on the way is false: {problem.text}"


def test_an_answer_starts_with_a_space_and_ends_with_a_full_stop():
    for kind in KINDS:
        for problem in sample(kind, held_out=False, count=50):
            assert problem.answer.startswith(" ") and problem.answer.endswith("."), repr(problem.answer)
            assert problem.text == problem.prompt + problem.answer + "\n", "the text is not prompt, answer, newline"


def test_held_out_problems_are_distinct_and_equally_many_of_each_kind():
    problems = held_out_problems(per_kind=60)
    assert [problem.kind for problem in problems] == [kind for kind in KINDS for _ in range(60)]
    assert len({problem.key for problem in problems}) == len(problems), "a problem is asked twice"
    assert all(map(is_held_out, problems)), "a training problem is among the held-out ones"


def test_an_unknown_kind_is_refused_by_name():
    with pytest.raises(ValueError, match="kind: 'product' is not a kind of problem; allowed are sum"):
        make_problem(random.Random(0), "product", held_out=False)


def test_too_many_held_out_problems_are_refused():
    with pytest.raises(ValueError, match="per_kind: 5000 is outside 1 to 100"):
        held_out_problems(per_kind=5000)
