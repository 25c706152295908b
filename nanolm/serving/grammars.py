"""The grammars that requests ask for, made for the tokenizer of the model that is served."""

from functools import cached_property

from ..grammar.constraint import Grammar
from ..grammar.guidance import GrammarCompiler
from ..openai_api.refusal import Refusal
from ..openai_api.request import RequestBody
from ..text.tokenizer import Tokenizer


class Grammars:
    """Makes grammars; what it needs once for a tokenizer is made when the first is asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def of(self, asked: RequestBody) -> Grammar | None:
        """Return the grammar of the answers to a request; None: they may be anything.

        Raises:
            Refusal: a schema that is none or cannot be followed; the library for it is not installed.
        """
        if asked.schema_of_answer is None:
            return None
        try:
            return self.compiler.from_json_schema(asked.schema_of_answer)
        except ModuleNotFoundError as error:
            raise Refusal(400, f"response_format: {error}", "response_format", "unsupported_parameter") from None
        except ValueError as error:
            why = f"response_format has a schema that cannot be followed: {error}"
            raise Refusal(400, why, "response_format", "invalid_schema") from None

    @cached_property
    def compiler(self) -> GrammarCompiler:
        """What turns schemas into grammars."""
        return GrammarCompiler(self.tokenizer)
