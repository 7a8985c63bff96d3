"""Requests of OpenAI's API: what of them goes to the agent, and errors that name the member.

Rules:
1. Only the newest message of the user goes to the agent. The messages before it, without those of the system,
   are the transcript, by which a conversation is found again.
2. What becomes of each parameter is in the table of `openai_parameters`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_bridge.codec.values import describe
from a2a_bridge.core.messages import text_part
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts.openai_parameters import REFUSED_IN_CHAT, REFUSED_IN_RESPONSES, Harmless


def quoted(value: Any) -> str:
    """A value for the text of an error: short text as it is, and of anything else, which can be deep, its
    kind.
    """
    if isinstance(value, str) and len(value) <= _LONGEST_QUOTE:
        return repr(value)
    return describe(value)


#: characters
_LONGEST_QUOTE = 200


class RequestError(Exception):
    """A request is not valid. param: the member. code: as OpenAI's API has it."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Wanted:
    """JSON that is asked for in place of text. path: of the schema, or of the member. schema: None for any
    object. document: the format as it was asked for.
    """

    path: str
    document: Mapping[str, Any]
    schema: Any = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for an answer."""

    parts: tuple[hub.Part, ...]
    #: the newest message as it stands in a transcript
    newest: str
    #: what was said before, as (role, content)
    transcript: tuple[tuple[str, str], ...]
    model: str
    stream: bool = False
    #: chat completions: whether a stream ends with a chunk about usage
    include_usage: bool = False
    previous_response_id: str = ""
    #: the member that names the response
    previous_at: str = "previous_response_id"
    wanted: Wanted | None = None


def digest(transcript: Sequence[tuple[str, str]]) -> str:
    """The digest of a transcript. Space around a message does not count: clients remove it."""
    words = json.dumps([(role, content.strip()) for role, content in transcript])
    return hashlib.sha256(words.encode()).hexdigest()


#: the beginnings of the id of a response and of that of its message; the rest is the same
RESPONSE, ITEM = "resp_", "msg_"
_TEXTS = ("text", "input_text")


def chat_request(body: Any) -> Ask:
    """A request for a chat completion. Raises RequestError."""
    known = _object(body, REFUSED_IN_CHAT)
    messages = _list(known.get("messages"), "messages")
    options = known.get("stream_options")
    usage: Mapping[str, Any] = {} if options is None else options
    if not isinstance(usage, dict):
        raise RequestError("stream_options: is an object", "stream_options")
    parts, newest, transcript = _split(messages, "messages")
    return Ask(
        parts,
        newest,
        transcript,
        _text(known, "model"),
        _flag(known, "stream"),
        include_usage=_flag(usage, "include_usage", "stream_options.include_usage"),
        wanted=_wanted(known.get("response_format"), "response_format", "json_schema"),
    )


def response_request(body: Any) -> Ask:
    """A request for a response. Raises RequestError."""
    known = _object(body, REFUSED_IN_RESPONSES)
    given = known.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    items = _list(given, "input")
    text = {} if known.get("text") is None else known["text"]
    if not isinstance(text, dict):
        raise RequestError("text: is an object", "text")
    previous = known.get("previous_response_id") or ""
    if not isinstance(previous, str):
        raise RequestError("previous_response_id: is text", "previous_response_id")
    referenced, first, at = "", 0, "previous_response_id"
    for place, item in enumerate(items):
        kind = item.get("type", "message") if isinstance(item, dict) else "message"
        if kind == "item_reference":
            # The Vercel AI SDK names the messages that it has got in place of the response.
            referenced, first, at = _referenced(item, f"input[{place}]"), place + 1, f"input[{place}].id"
            if previous:
                raise RequestError(f"input[{place}]: not beside previous_response_id", f"input[{place}]")
        elif kind not in ("message", "reasoning"):
            path = f"input[{place}].type"
            raise RequestError(f"{path}: {quoted(kind)} is not supported", path)
    parts, newest, transcript = _split(items, "input", first)
    return Ask(
        parts,
        newest,
        transcript,
        _text(known, "model"),
        _flag(known, "stream"),
        previous_response_id=previous or referenced,
        previous_at=at,
        wanted=_wanted(text.get("format"), "text.format"),
    )


def _wanted(given: Any, path: str, member: str = "") -> Wanted | None:
    """The format that is asked for; None for text. member: holds the schema with its name, if it is not in
    the format itself. Raises RequestError.
    """
    if given is None:
        return None
    if not isinstance(given, dict):
        raise RequestError(f"{path}: is an object", path)
    kind = given.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return Wanted(path, given)
    if kind != "json_schema":
        raise RequestError(f"{path}.type: is text, json_object or json_schema", f"{path}.type")
    known, inside = (given.get(member), f"{path}.{member}") if member else (given, path)
    if not isinstance(known, dict):
        raise RequestError(f"{inside}: is required, as an object", inside)
    if known.get("schema") is None:
        raise RequestError(f"{inside}.schema: is required, as a JSON Schema", f"{inside}.schema")
    return Wanted(f"{inside}.schema", given, known["schema"])


def _referenced(item: dict[str, Any], path: str) -> str:
    """The id of the response of a message that an item refers to. Raises RequestError."""
    name = _member(item, "id", path)
    if not name.startswith(ITEM):
        raise RequestError(f"{path}.id: {quoted(name)} is no message of this agent", f"{path}.id")
    return RESPONSE + name.removeprefix(ITEM)


def _object(body: Any, unsupported: Mapping[str, Harmless]) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise RequestError("the body is no JSON object")
    for name, is_harmless in unsupported.items():
        if name in body and not is_harmless(body[name]):
            raise RequestError(f"{name}: is not supported by this agent", name, "unsupported_parameter")
    return body


def _text(known: Mapping[str, Any], name: str) -> str:
    value = known.get(name)
    if not isinstance(value, str) or not value:
        raise RequestError(f"{name}: is required, as text", name)
    return value


def _flag(known: Mapping[str, Any], name: str, path: str = "") -> bool:
    value = known.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(f"{path or name}: is true or false", path or name)
    return bool(value)


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise RequestError(f"{name}: is required, as a list that is not empty", name)
    return value


def _split(
    messages: Sequence[Any], name: str, first: int = 0
) -> tuple[tuple[hub.Part, ...], str, tuple[tuple[str, str], ...]]:
    """The newest message as parts and as text, and the transcript before it, without messages that are empty.
    first: the place of the first message that counts. Raises RequestError.
    """
    transcript: list[tuple[str, str]] = []
    newest: tuple[hub.Part, ...] = ()
    role: Any = ""
    path = f"{name}[{len(messages) - 1}]"
    for place, one in enumerate(messages[first:], first):
        path = f"{name}[{place}]"
        if not isinstance(one, dict):
            raise RequestError(f"{path}: is an object", path)
        if one.get("type") == "reasoning":
            continue
        role = one.get("role")
        if not isinstance(role, str) or role not in (
            "user",
            "assistant",
            "system",
            "developer",
            "tool",
            "function",
        ):
            raise RequestError(f"{path}.role: {quoted(role)} is not known", f"{path}.role")
        content = one.get("content")
        if role == "user":
            try:
                newest = tuple(_parts(content, f"{path}.content"))
            except UnicodeEncodeError:
                text = f"{path}.content: has half of a surrogate pair"
                raise RequestError(text, f"{path}.content") from None
            said = "".join(_mark(part) for part in newest)
        else:
            said = _plain(content, f"{path}.content")
        if said and role not in ("system", "developer"):
            transcript.append((role, said))
    if role != "user":
        raise RequestError(f"{path}.role: the last message is the user's", f"{path}.role")
    if not newest:
        raise RequestError(f"{path}.content: is empty", f"{path}.content")
    return newest, transcript[-1][1], tuple(transcript[:-1])


def _mark(part: hub.Part) -> str:
    """A part in a transcript: its text, or a digest."""
    if part.WhichOneof("content") == "text":
        return part.text
    return hashlib.sha256(part.SerializeToString(deterministic=True)).hexdigest()


def _plain(content: Any, path: str) -> str:
    """The text of a message that does not go to the agent."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise RequestError(f"{path}: is text or a list", path)
    return "".join(
        one["text"] for one in content if isinstance(one, dict) and isinstance(one.get("text"), str)
    )


def _parts(content: Any, path: str) -> list[hub.Part]:
    """The content of a message of the user, without texts that are empty. Raises RequestError."""
    if isinstance(content, str):
        return [text_part(content)] if content else []
    if not isinstance(content, list):
        raise RequestError(f"{path}: is text or a list", path)
    return [
        _part(one, f"{path}[{place}]")
        for place, one in enumerate(content)
        if not (isinstance(one, dict) and one.get("type") in _TEXTS and one.get("text") == "")
    ]


def _part(one: Any, path: str) -> hub.Part:
    if not isinstance(one, dict):
        raise RequestError(f"{path}: is an object", path)
    kind = one.get("type")
    if kind in _TEXTS:
        return text_part(_member(one, "text", path))
    if kind == "image_url":
        image = one.get("image_url")
        if not isinstance(image, dict):
            raise RequestError(f"{path}.image_url: is an object", f"{path}.image_url")
        return _at(_member(image, "url", f"{path}.image_url"), f"{path}.image_url.url", "image/*")
    if kind == "input_image":
        return _at(_member(one, "image_url", path), f"{path}.image_url", "image/*")
    if kind == "input_audio":
        audio = one.get("input_audio")
        if not isinstance(audio, dict):
            raise RequestError(f"{path}.input_audio: is an object", f"{path}.input_audio")
        inside = f"{path}.input_audio"
        raw = _decoded(_member(audio, "data", inside), f"{inside}.data")
        return hub.Part(raw=raw, media_type=f"audio/{_member(audio, 'format', inside)}")
    if kind == "file":
        found = one.get("file")
        if not isinstance(found, dict):
            raise RequestError(f"{path}.file: is an object", f"{path}.file")
        return _file(found, f"{path}.file")
    if kind == "input_file":
        return _file(one, path)
    raise RequestError(f"{path}.type: {quoted(kind)} is not supported", f"{path}.type")


def _member(known: Mapping[str, Any], name: str, path: str) -> str:
    value = known.get(name)
    if not isinstance(value, str) or not value:
        raise RequestError(f"{path}.{name}: is required, as text", f"{path}.{name}")
    return value


def _file(known: Mapping[str, Any], path: str) -> hub.Part:
    name = known.get("filename") or ""
    if not isinstance(name, str):
        raise RequestError(f"{path}.filename: is text", f"{path}.filename")
    if known.get("file_id"):
        text = f"{path}.file_id: this agent keeps no files; send file_data or an URL"
        raise RequestError(text, f"{path}.file_id", "unsupported_parameter")
    if known.get("file_url"):
        part = _at(_member(known, "file_url", path), f"{path}.file_url")
    else:
        part = _at(_member(known, "file_data", path), f"{path}.file_data", encoded=True)
    part.filename = name
    return part


def _at(url: str, path: str, media_type: str = "", *, encoded: bool = False) -> hub.Part:
    """The part of a URL, of a data: URL, or of base64 text if `encoded`. Raises RequestError."""
    scheme, _, rest = url.partition(":")
    if scheme.lower() == "data":
        head, comma, data = rest.partition(",")
        kind, _, coding = head.rpartition(";")
        if not comma or coding != "base64":
            raise RequestError(f"{path}: is no data: URL in base64", path)
        return hub.Part(raw=_decoded(data, path), media_type=kind.partition(";")[0])
    if encoded:
        return hub.Part(raw=_decoded(url, path))
    if scheme.lower() not in ("http", "https") or not rest.startswith("//"):
        raise RequestError(f"{path}: is no URL that begins with https:, http: or data:", path)
    return hub.Part(url=url, media_type=media_type)


def _decoded(data: str, path: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(f"{path}: is not base64", path) from None
