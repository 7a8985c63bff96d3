"""The parameters of OpenAI's API and what becomes of each: one table, for the code and for its page.

Rules:
1. A parameter that would change what a client gets, and that an agent does not know, is refused by name,
   unless its value asks for nothing.
2. Settings of a model are ignored: the agent chooses them. So are parameters that the table does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any


class Use(Enum):
    """What becomes of a parameter."""

    #: it counts
    USED = "accepted"
    IGNORED = "ignored"
    #: an error names it
    REFUSED = "refused"


class Api(Flag):
    """What has a parameter."""

    CHAT = auto()
    RESPONSES = auto()
    BOTH = CHAT | RESPONSES


#: whether a value is no reason for an error
Harmless = Callable[[Any], bool]


def _any(_: Any) -> bool:
    return True


def _is_empty(value: Any) -> bool:
    return value in (None, False, [], {}, "")


def _is_absent(value: Any) -> bool:
    return value is None


def _is_one(value: Any) -> bool:
    return value is None or (value == 1 and not isinstance(value, bool))


def _is_zero(value: Any) -> bool:
    return value is None or (value == 0 and not isinstance(value, bool))


def _is_free_choice(value: Any) -> bool:
    return value in (None, "none", "auto")


def _is_text_only(value: Any) -> bool:
    return value in (None, ["text"])


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. harmless: of the values of one that is refused, those that are not. note: for pages."""

    name: str
    use: Use
    note: str
    api: Api = Api.BOTH
    harmless: Harmless = _any


def _rows() -> Iterator[Parameter]:
    used, ignored, refused = Use.USED, Use.IGNORED, Use.REFUSED
    yield Parameter("model", used, "the name of the agent")
    yield Parameter(
        "messages", used, "the newest message goes to the agent; the others find the chat", api=Api.CHAT
    )
    yield Parameter("input", used, "the same, as text or as a list of items", api=Api.RESPONSES)
    yield Parameter(
        "previous_response_id", used, "continues the conversation of a response", api=Api.RESPONSES
    )
    yield Parameter("stream", used, "")
    yield Parameter("stream_options", used, "`include_usage`; other members are ignored", api=Api.CHAT)
    yield Parameter("stream_options", ignored, "", api=Api.RESPONSES)
    yield Parameter("response_format", used, "`text`, `json_object`, `json_schema`", api=Api.CHAT)
    yield Parameter("text", used, "`format`: the same; `verbosity` is ignored", api=Api.RESPONSES)
    yield Parameter("n", refused, "except 1: an agent gives one answer", harmless=_is_one)
    yield Parameter(
        "tools", refused, "except an empty list: an agent calls no tools of its caller", harmless=_is_empty
    )
    yield Parameter("functions", refused, "as `tools`", harmless=_is_empty)
    yield Parameter("tool_choice", refused, "except `none` and `auto`", harmless=_is_free_choice)
    yield Parameter("function_call", refused, "as `tool_choice`", harmless=_is_free_choice)
    yield Parameter("logprobs", refused, "except false: an agent has none", harmless=_is_empty, api=Api.CHAT)
    yield Parameter("top_logprobs", refused, "except 0", harmless=_is_zero)
    yield Parameter("audio", refused, "an answer is text", harmless=_is_empty, api=Api.CHAT)
    yield Parameter("modalities", refused, 'except `["text"]`', harmless=_is_text_only, api=Api.CHAT)
    yield Parameter("image", refused, "an answer is text", harmless=_is_empty, api=Api.RESPONSES)
    yield Parameter("web_search_options", refused, "the agent decides", harmless=_is_absent, api=Api.CHAT)
    yield Parameter(
        "background", refused, "except false: responses are not stored", harmless=_is_empty, api=Api.RESPONSES
    )
    yield Parameter(
        "conversation", refused, "use `X-A2A-Conversation`", harmless=_is_empty, api=Api.RESPONSES
    )
    yield Parameter("prompt", refused, "no prompts are stored", harmless=_is_empty, api=Api.RESPONSES)
    yield Parameter(
        "instructions", ignored, "as messages of the system: the agent has its own", api=Api.RESPONSES
    )
    for name, note in _SETTINGS.items():
        yield Parameter(name, ignored, note)
    for name, note in _SETTINGS_OF_CHAT.items():
        yield Parameter(name, ignored, note, api=Api.CHAT)
    for name, note in _SETTINGS_OF_RESPONSES.items():
        yield Parameter(name, ignored, note, api=Api.RESPONSES)


_MODEL, _ACCOUNT, _CACHE = "a setting of a model", "for the bills of a provider", "a cache of a provider"
_SETTINGS = {
    "temperature": _MODEL,
    "top_p": _MODEL,
    "parallel_tool_calls": "there are no calls of tools",
    "metadata": "nothing is stored",
    "store": "nothing is stored",
    "user": "the key says who calls",
    "safety_identifier": "as `user`",
    "service_tier": _ACCOUNT,
    "prompt_cache_key": _CACHE,
    "prompt_cache_options": _CACHE,
    "prompt_cache_retention": _CACHE,
    "moderation": _MODEL,
}
_SETTINGS_OF_CHAT = {
    "seed": _MODEL,
    "stop": _MODEL,
    "max_tokens": _MODEL,
    "max_completion_tokens": _MODEL,
    "frequency_penalty": _MODEL,
    "presence_penalty": _MODEL,
    "logit_bias": _MODEL,
    "prediction": _MODEL,
    "reasoning_effort": _MODEL,
    "verbosity": _MODEL,
}
_SETTINGS_OF_RESPONSES = {
    "max_output_tokens": _MODEL,
    "max_tool_calls": "there are no calls of tools",
    "reasoning": _MODEL,
    "truncation": _MODEL,
    "context_management": "the agent keeps the conversation",
    "include": "an answer has nothing more",
    "access_programs": _ACCOUNT,
    "background_options": "as `background`",
}

PARAMETERS = tuple(_rows())
#: what can be refused, by name: whether a value is harmless
REFUSED_IN_CHAT: Mapping[str, Harmless] = {
    one.name: one.harmless for one in PARAMETERS if Api.CHAT in one.api and one.use is Use.REFUSED
}
REFUSED_IN_RESPONSES: Mapping[str, Harmless] = {
    one.name: one.harmless for one in PARAMETERS if Api.RESPONSES in one.api and one.use is Use.REFUSED
}
