"""Tests `nanolm/chat_template.py`: a conversation as the text that the shipped models know."""

import pytest

from nanolm.chat_template import chat_prompt


def test_a_question_is_its_own_prompt():
    assert chat_prompt([("user", "89 + 27:")]) == "89 + 27:"


def test_a_conversation_is_a_document_of_worked_problems():
    messages = [("user", "89 + 27:"), ("assistant", "9 + 7 = 16, so 116."), ("user", "40 - 11:")]
    assert chat_prompt(messages) == "89 + 27: 9 + 7 = 16, so 116.\n40 - 11:"


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_message_of_the_system_is_a_line_before(role):
    assert chat_prompt([(role, "Sums."), ("user", "1 + 1:")]) == "Sums.\n1 + 1:"


def test_two_questions_in_a_row_are_two_lines():
    assert chat_prompt([("user", "ROMEO"), ("user", "JULIET")]) == "ROMEO\nJULIET"


def test_space_around_a_content_is_dropped():
    assert chat_prompt([("user", " a \n"), ("assistant", " b "), ("user", "c ")]) == "a b\nc"


@pytest.mark.parametrize("messages", [[], [("assistant", "a")], [("user", "a"), ("system", "b")]])
def test_a_conversation_that_does_not_end_with_a_question_is_refused(messages):
    with pytest.raises(ValueError, match="must end with one of the user"):
        chat_prompt(messages)


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match="role is 'tool'"):
        chat_prompt([("tool", "a"), ("user", "b")])
