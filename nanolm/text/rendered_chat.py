"""A model's own chat template, rendered as transformers renders it: a Jinja program from strangers, in a sandbox.

Source: transformers' chat_template_utils.py says what a template may use: loop controls, `raise_exception`,
`strftime_now`, a `tojson` that escapes no HTML, and the tag `generation`, which changes nothing here.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

from .bounded_jinja import OUTPUTS, BoundedEnvironment, Budget, to_json
from .tokenizer import Tokenizer

Message = tuple[str, str]  # (role, content)
_LONGEST = 1 << 22  # characters that a template may make of a conversation
_SECONDS = 1.0  # for that; the slowest of real templates takes milliseconds


class RenderedChat:
    """A chat template in Jinja.

    Special tokens that a content spells out are text, not tokens: a user cannot end their own message and speak as
    system. The same holds of other added tokens that the template itself writes, but in the assistant's own messages,
    where a model's thoughts may stand between two of them.

    Args:
        source: the template.
        special: the texts of the special tokens by what templates call them: bos_token, eos_token and so on.

    Attributes:
        stops: strings that end an answer and are no part of it; here the end is a token, which is no text.
    """

    stops: tuple[str, ...] = ()

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        self.source, self.special, self._budget = source, dict(special), Budget()

    @cached_property
    def variables(self) -> set[str]:
        """What the template asks for, such as "messages" and "tools"."""
        return meta.find_undeclared_variables(self._environment.parse(self.source))

    def prompt(
        self,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        tools: Sequence[Mapping[str, Any]] | None = None,
        more: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        """Return the tokens of a conversation up to where the answer begins, a start token included if it has one.

        Args:
            tools: what the model may call, as transformers hands it to templates.
            more: what each message has beside role and content, as the calls of an assistant.

        Raises:
            ValueError: the template cannot be read, refuses the conversation or fails.
        """
        nonce, special = secrets.token_hex(8), tokenizer.special_texts
        others = [text for text in tokenizer.added_texts if text in self.source and text not in special]
        mark = partial(_marked, nonce=nonce)
        written = []
        for (role, content), extra in zip_longest(messages, more, fillvalue={}):
            spelled = special if role == "assistant" else [*special, *others]
            message = {"role": "system" if role == "developer" else role, "content": content, **extra}
            written.append({**mark(message, spelled=spelled), "role": message["role"]})
        tools = None if tools is None else mark(list(tools), spelled=[*special, *others])
        first, *rest = re.split(f"{nonce}:(.+?);{nonce}", self.render(written, tools=tools), flags=re.DOTALL)
        ids = tokenizer.encode(first)
        for spelled_out, text in zip(rest[::2], rest[1::2], strict=True):
            ids += _as_text(spelled_out, tokenizer)
            ids += tokenizer.encode(text) if text else []
        return ids

    def end_tokens(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Return the special token that the template puts behind an answer, where it puts one."""
        mark = secrets.token_hex(8)
        try:
            messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": mark}]
            behind = self.render(messages, False).partition(mark)[2].lstrip()
        except ValueError:
            return ()
        found = [text for text in tokenizer.special_texts if behind.startswith(text)]
        end = tokenizer.inner.token_to_id(max(found, key=len)) if found else None
        return () if end is None else (end,)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """Return the text that the template makes of messages with role and content.

        Raises:
            ValueError: as `prompt`; it takes longer than a second.
        """
        try:
            with self._budget.started(_SECONDS, OUTPUTS * _LONGEST):
                text = self._template.render(
                    **self.special,
                    messages=messages,
                    tools=tools,
                    documents=None,
                    add_generation_prompt=add_generation_prompt,
                )
        except Exception as error:  # whatever the template's own program does
            raise ValueError(f"the model's chat template does not take this conversation: {error}") from error
        if len(text) > _LONGEST:
            raise ValueError(f"the model's chat template makes a text of {len(text)} characters, over {_LONGEST}")
        return text

    @cached_property
    def _template(self) -> jinja2.Template:
        return self._environment.from_string(self.source)

    @cached_property
    def _environment(self) -> BoundedEnvironment:
        environment = BoundedEnvironment(
            self._budget, _LONGEST, trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
        )
        environment.filters["tojson"] = partial(_tojson, budget=self._budget)
        environment.globals |= {"raise_exception": _raise, "strftime_now": lambda form: datetime.now().strftime(form)}
        return environment


def _marked(value: Any, nonce: str, spelled: Sequence[str]) -> Any:
    """A value from a stranger, with marks around all that is spelled as a token in its texts."""
    if isinstance(value, str):
        pattern = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
        return re.sub(pattern, lambda found: f"{nonce}:{found[0]};{nonce}", value) if spelled else value
    if isinstance(value, Mapping):
        return {_marked(key, nonce, spelled): _marked(each, nonce, spelled) for key, each in value.items()}
    return [_marked(each, nonce, spelled) for each in value] if isinstance(value, list) else value


def _as_text(token: str, tokenizer: Tokenizer) -> list[int]:
    """A token's own text, in two parts, neither of which is the token."""
    if token in tokenizer.special_texts:
        return tokenizer.encode(token, special_tokens=False)
    return [*tokenizer.encode(token[:1]), *tokenizer.encode(token[1:])]


class _Generation(Extension):
    """{% generation %} … {% endgeneration %}, which marks what a model would be trained to write."""

    tags = {"generation"}  # noqa: RUF012  as Jinja wants it

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(value: Any, ensure_ascii: bool = False, *, budget: Budget, **how: Any) -> str:
    return to_json(value, budget, ensure_ascii=ensure_ascii, **how)
