"""Answers as server-sent events."""

import logging
from collections.abc import AsyncGenerator

from ..openai_api.refusal import Refusal
from ..openai_api.response import DONE, AnswerFormat, Choice, event
from .answers import Answers
from .request_group import RequestGroup
from .request_log import RequestRecord

_log = logging.getLogger("nanolm")


async def events_of(
    answers: Answers, group: RequestGroup, deadline: float, form: AnswerFormat, record: RequestRecord
) -> AsyncGenerator[str, None]:
    """Yield the answers as server-sent events; whatever goes wrong on the way is the last of them.

    Args:
        deadline: a time of the loop's clock.
        record: gets the `outcome`, a status and the code of an error, unless the client goes away before.
    """
    try:
        async for each in _pieces(answers, group, deadline, form):
            yield each
    except Refusal as error:
        record.note(outcome=(error.status, error.code))
        yield event(error.body())
    except Exception:
        _log.exception("a stream failed")
        record.note(outcome=(500, "internal_error"))
        yield event(Refusal(500, "the server failed; its log says more", code="internal_error").body())
    else:
        record.note(outcome=(200, None))
        yield DONE


async def _pieces(
    answers: Answers, group: RequestGroup, deadline: float, form: AnswerFormat
) -> AsyncGenerator[str, None]:
    for index in range(len(answers.answers) if form.chat else 0):
        yield event(form.opening(index))
    while not answers.are_complete:
        index, choice = await answers.next(group, deadline)
        reason, choice.reason = choice.reason, None
        if choice.text or choice.logprobs or choice.calls:
            yield event(form.piece(index, choice))
        if reason is not None:
            yield event(form.piece(index, Choice(reason=reason)))
    if form.counted:
        yield event(form.closing(answers.usage))
