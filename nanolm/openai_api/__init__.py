"""What clients of OpenAI's API ask and what they are answered; no network, no engine. Needs the extra `serve`."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "chat": [
        "ChatBody",
        "Message",
        "TextPart",
    ],
    "completion": [
        "CompletionBody",
        "MAX_PROMPTS",
    ],
    "formats": [
        "AllowedTools",
        "CHOICE_ALLOWED",
        "Call",
        "CalledFunction",
        "FORMAT_ALLOWED",
        "Function",
        "JsonSchema",
        "MAX_TOOLS",
        "NamedFunction",
        "NamedTool",
        "ResponseFormat",
        "SomeTools",
        "TOOLS_ALLOWED",
        "Tool",
    ],
    "logprobs": [
        "LogprobFormat",
    ],
    "neutral": [
        "LLAMA_CPP",
        "NOT_DONE",
        "OPENAI",
        "VLLM",
        "WITHOUT_EFFECT",
        "without_neutral",
    ],
    "reading": [
        "Body",
        "parse",
    ],
    "refusal": [
        "Refusal",
    ],
    "request": [
        "MAX_BIAS",
        "MAX_CHOICES",
        "MAX_LOGPROBS",
        "MAX_PENALTY",
        "MAX_REPETITION",
        "MAX_SEED",
        "MAX_STOPS",
        "MAX_STOP_LENGTH",
        "Prompt",
        "RequestBody",
        "StreamOptions",
    ],
    "response": [
        "AnswerFormat",
        "CallPiece",
        "Choice",
        "DONE",
        "Usage",
        "event",
        "model_card",
        "model_list",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .chat import ChatBody as ChatBody
    from .chat import Message as Message
    from .chat import TextPart as TextPart
    from .completion import CompletionBody as CompletionBody
    from .completion import MAX_PROMPTS as MAX_PROMPTS
    from .formats import AllowedTools as AllowedTools
    from .formats import CHOICE_ALLOWED as CHOICE_ALLOWED
    from .formats import Call as Call
    from .formats import CalledFunction as CalledFunction
    from .formats import FORMAT_ALLOWED as FORMAT_ALLOWED
    from .formats import Function as Function
    from .formats import JsonSchema as JsonSchema
    from .formats import MAX_TOOLS as MAX_TOOLS
    from .formats import NamedFunction as NamedFunction
    from .formats import NamedTool as NamedTool
    from .formats import ResponseFormat as ResponseFormat
    from .formats import SomeTools as SomeTools
    from .formats import TOOLS_ALLOWED as TOOLS_ALLOWED
    from .formats import Tool as Tool
    from .logprobs import LogprobFormat as LogprobFormat
    from .neutral import LLAMA_CPP as LLAMA_CPP
    from .neutral import NOT_DONE as NOT_DONE
    from .neutral import OPENAI as OPENAI
    from .neutral import VLLM as VLLM
    from .neutral import WITHOUT_EFFECT as WITHOUT_EFFECT
    from .neutral import without_neutral as without_neutral
    from .reading import Body as Body
    from .reading import parse as parse
    from .refusal import Refusal as Refusal
    from .request import MAX_BIAS as MAX_BIAS
    from .request import MAX_CHOICES as MAX_CHOICES
    from .request import MAX_LOGPROBS as MAX_LOGPROBS
    from .request import MAX_PENALTY as MAX_PENALTY
    from .request import MAX_REPETITION as MAX_REPETITION
    from .request import MAX_SEED as MAX_SEED
    from .request import MAX_STOPS as MAX_STOPS
    from .request import MAX_STOP_LENGTH as MAX_STOP_LENGTH
    from .request import Prompt as Prompt
    from .request import RequestBody as RequestBody
    from .request import StreamOptions as StreamOptions
    from .response import AnswerFormat as AnswerFormat
    from .response import CallPiece as CallPiece
    from .response import Choice as Choice
    from .response import DONE as DONE
    from .response import Usage as Usage
    from .response import event as event
    from .response import model_card as model_card
    from .response import model_list as model_list
