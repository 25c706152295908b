"""The serving engine: requests are scheduled, run in one pass, and given their tokens.

`engine` is the loop, `scheduler` decides, `model_runner` computes, `token_choice` draws, `postprocess` hands out.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "admission": [
        "Admission",
        "LOOK_AHEAD",
        "begin_with_prefix",
        "let_a_short_one_pass",
        "n_shared",
        "prompt_shares",
    ],
    "blocking": [
        "BlockingCalls",
    ],
    "drafting": [
        "DRAFTS",
        "LookupDrafts",
        "ModelDrafts",
        "NoDrafts",
        "TOKENS",
        "VERIFICATION",
        "adjust_request",
        "needs_verification",
    ],
    "engine": [
        "Engine",
    ],
    "intake": [
        "Intake",
        "Stop",
        "check_steady",
    ],
    "metrics": [
        "EngineMetrics",
        "RequestMetrics",
        "StepRecord",
        "summary",
    ],
    "model_runner": [
        "ModelRunner",
    ],
    "plain_runner": [
        "PlainChoice",
        "PlainLookupDrafts",
        "PlainRunner",
        "plain_model",
    ],
    "postprocess": [
        "Observer",
        "Postprocessor",
    ],
    "request": [
        "FINISH_REASONS",
        "Output",
        "Request",
        "TO_DRAFT",
    ],
    "scheduler": [
        "Plan",
        "Scheduler",
        "Work",
    ],
    "token_choice": [
        "Outcome",
        "TokenChoice",
        "keep_right_guesses",
        "not_finite",
        "outcome_of",
        "score_prompt",
        "verify",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .admission import Admission as Admission
    from .admission import LOOK_AHEAD as LOOK_AHEAD
    from .admission import begin_with_prefix as begin_with_prefix
    from .admission import let_a_short_one_pass as let_a_short_one_pass
    from .admission import n_shared as n_shared
    from .admission import prompt_shares as prompt_shares
    from .blocking import BlockingCalls as BlockingCalls
    from .drafting import DRAFTS as DRAFTS
    from .drafting import LookupDrafts as LookupDrafts
    from .drafting import ModelDrafts as ModelDrafts
    from .drafting import NoDrafts as NoDrafts
    from .drafting import TOKENS as TOKENS
    from .drafting import VERIFICATION as VERIFICATION
    from .drafting import adjust_request as adjust_request
    from .drafting import needs_verification as needs_verification
    from .engine import Engine as Engine
    from .intake import Intake as Intake
    from .intake import Stop as Stop
    from .intake import check_steady as check_steady
    from .metrics import EngineMetrics as EngineMetrics
    from .metrics import RequestMetrics as RequestMetrics
    from .metrics import StepRecord as StepRecord
    from .metrics import summary as summary
    from .model_runner import ModelRunner as ModelRunner
    from .plain_runner import PlainChoice as PlainChoice
    from .plain_runner import PlainLookupDrafts as PlainLookupDrafts
    from .plain_runner import PlainRunner as PlainRunner
    from .plain_runner import plain_model as plain_model
    from .postprocess import Observer as Observer
    from .postprocess import Postprocessor as Postprocessor
    from .request import FINISH_REASONS as FINISH_REASONS
    from .request import Output as Output
    from .request import Request as Request
    from .request import TO_DRAFT as TO_DRAFT
    from .scheduler import Plan as Plan
    from .scheduler import Scheduler as Scheduler
    from .scheduler import Work as Work
    from .token_choice import Outcome as Outcome
    from .token_choice import TokenChoice as TokenChoice
    from .token_choice import keep_right_guesses as keep_right_guesses
    from .token_choice import not_finite as not_finite
    from .token_choice import outcome_of as outcome_of
    from .token_choice import score_prompt as score_prompt
    from .token_choice import verify as verify
