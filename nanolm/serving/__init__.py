"""An endpoint that speaks OpenAI's API, over the engine. Needs the extra `serve`."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "answers": [
        "Answer",
        "Answers",
        "Scored",
        "Stop",
    ],
    "app": [
        "build_app",
    ],
    "async_engine": [
        "AsyncEngine",
    ],
    "call_reader": [
        "CallReader",
    ],
    "endpoints": [
        "Api",
    ],
    "events": [
        "events_of",
    ],
    "gauges": [
        "gauges_of",
    ],
    "grammars": [
        "Grammars",
    ],
    "metrics": [
        "CONTENT_TYPE",
        "ServerMetrics",
    ],
    "prompt_pool": [
        "PromptPool",
    ],
    "request_group": [
        "Busy",
        "NotServing",
        "RequestGroup",
    ],
    "request_log": [
        "RequestRecord",
        "log_requests",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .answers import Answer as Answer
    from .answers import Answers as Answers
    from .answers import Scored as Scored
    from .answers import Stop as Stop
    from .app import build_app as build_app
    from .async_engine import AsyncEngine as AsyncEngine
    from .call_reader import CallReader as CallReader
    from .endpoints import Api as Api
    from .events import events_of as events_of
    from .gauges import gauges_of as gauges_of
    from .grammars import Grammars as Grammars
    from .metrics import CONTENT_TYPE as CONTENT_TYPE
    from .metrics import ServerMetrics as ServerMetrics
    from .prompt_pool import PromptPool as PromptPool
    from .request_group import Busy as Busy
    from .request_group import NotServing as NotServing
    from .request_group import RequestGroup as RequestGroup
    from .request_log import RequestRecord as RequestRecord
    from .request_log import log_requests as log_requests
