"""An endpoint that speaks OpenAI's API, over the engine. Needs the extra `serve`."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "app": [
        "Api",
        "Limits",
        "build_app",
    ],
    "async_engine": [
        "AsyncEngine",
        "log",
    ],
    "choices": [
        "Choices",
    ],
    "disconnect": [
        "EventStream",
        "T",
        "unless_gone",
    ],
    "openai_request": [
        "Body",
        "ChatBody",
        "CompletionBody",
        "MAX_CHOICES",
        "MAX_SEED",
        "MAX_STOPS",
        "MAX_STOP_LENGTH",
        "Message",
        "Refusal",
        "Request",
        "StreamOptions",
        "TextPart",
        "parse",
    ],
    "openai_response": [
        "AnswerFormat",
        "DONE",
        "event",
        "model_list",
        "usage",
    ],
    "prometheus": [
        "PrometheusCounters",
    ],
    "request_group": [
        "Busy",
        "NotServing",
        "RequestGroup",
    ],
    "uvicorn_server": [
        "WebServer",
        "listen",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .app import Api as Api
    from .app import Limits as Limits
    from .app import build_app as build_app
    from .async_engine import AsyncEngine as AsyncEngine
    from .async_engine import log as log
    from .choices import Choices as Choices
    from .disconnect import EventStream as EventStream
    from .disconnect import T as T
    from .disconnect import unless_gone as unless_gone
    from .openai_request import Body as Body
    from .openai_request import ChatBody as ChatBody
    from .openai_request import CompletionBody as CompletionBody
    from .openai_request import MAX_CHOICES as MAX_CHOICES
    from .openai_request import MAX_SEED as MAX_SEED
    from .openai_request import MAX_STOPS as MAX_STOPS
    from .openai_request import MAX_STOP_LENGTH as MAX_STOP_LENGTH
    from .openai_request import Message as Message
    from .openai_request import Refusal as Refusal
    from .openai_request import Request as Request
    from .openai_request import StreamOptions as StreamOptions
    from .openai_request import TextPart as TextPart
    from .openai_request import parse as parse
    from .openai_response import AnswerFormat as AnswerFormat
    from .openai_response import DONE as DONE
    from .openai_response import event as event
    from .openai_response import model_list as model_list
    from .openai_response import usage as usage
    from .prometheus import PrometheusCounters as PrometheusCounters
    from .request_group import Busy as Busy
    from .request_group import NotServing as NotServing
    from .request_group import RequestGroup as RequestGroup
    from .uvicorn_server import WebServer as WebServer
    from .uvicorn_server import listen as listen
