"""What an answer must look like: grammars as masks over the next token. JSON schemas need the extra `json`."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "constraint": [
        "Constraint",
        "GAVE_UP",
        "Grammar",
        "mask_logits",
    ],
    "guidance": [
        "GrammarCompiler",
        "GuidanceConstraint",
        "GuidanceGrammar",
    ],
    "optional": [
        "OptionalConstraint",
        "OptionalGrammar",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .constraint import Constraint as Constraint
    from .constraint import GAVE_UP as GAVE_UP
    from .constraint import Grammar as Grammar
    from .constraint import mask_logits as mask_logits
    from .guidance import GrammarCompiler as GrammarCompiler
    from .guidance import GuidanceConstraint as GuidanceConstraint
    from .guidance import GuidanceGrammar as GuidanceGrammar
    from .optional import OptionalConstraint as OptionalConstraint
    from .optional import OptionalGrammar as OptionalGrammar
