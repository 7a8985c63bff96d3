"""Answers in the forms of OpenAI's API: documents, events of streams, and errors. No I/O.

Agents count no tokens, so `usage` is 0. Files are Markdown: links, and data: URLs for bytes.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from a2a_bridge.codec import dumps
from a2a_bridge.core.errors import A2AError, Blame, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import json_of
from a2a_bridge_adapters.fronts.callers import status_of
from a2a_bridge_adapters.fronts.openai_requests import ITEM, RESPONSE, RequestError, Wanted
from a2a_bridge_adapters.fronts.turn import Answer

#: the `type` of errors by HTTP status
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}

#: HTTP status and text for errors of an agent that a caller would take for those of the front: its key is
#: right, and its own limit is not reached
_OF_THE_AGENT = {
    Reason.UNAUTHENTICATED: (502, "the agent does not accept the credentials of this front"),
    Reason.PERMISSION_DENIED: (502, "the agent does not let this front do that"),
    Reason.RESOURCE_EXHAUSTED: (503, "the agent is called too often"),
}


def text_of_parts(parts: Iterable[hub.Part]) -> str:
    """Parts as Markdown."""
    return "".join(_piece(part) for part in parts)


def _piece(part: hub.Part) -> str:
    which = part.WhichOneof("content")
    if which == "text":
        return part.text
    if which == "data":
        return f"\n\n```json\n{json.dumps(json_of(part), ensure_ascii=False, indent=2)}\n```\n\n"
    kind = part.media_type or "application/octet-stream"
    name = _NOT_IN_A_NAME.sub(" ", part.filename or kind).strip()
    url = part.url if which == "url" else f"data:{kind};base64,{base64.b64encode(part.raw).decode()}"
    ends = _ENDS_A_LINK.sub(lambda found: quote(found[0], safe="", errors="replace"), url)
    if which == "url" and not part.url.lower().startswith(("http://", "https://")):
        return f"\n\n{name}: {ends}\n\n"  # a link of another scheme, such as javascript:, could run code
    return f"\n\n{'!' if kind.startswith('image/') else ''}[{name}]({ends})\n\n"


#: what begins or ends something else than the name or the address of a link of Markdown
_NOT_IN_A_NAME = re.compile(r"[][\\`<>!\s]+")
_ENDS_A_LINK = re.compile(r"[()\\<>`\s\x00-\x1f\x7f-\x9f]")


def closing(answer: Answer, said: str) -> str:
    """What a turn says in its end, after `said`: a question, or the text of a task without artifacts."""
    if not answer.note or (said.strip() and not answer.waits):
        return ""
    note = answer.note + text_of_parts(answer.note_parts)
    return f"\n\n{note}" if said.strip() else note


@dataclass(slots=True)
class Problem:
    """An error of the API."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    @property
    def member(self) -> dict[str, Any]:
        """The value of `error`."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"message": self.message, "type": kind, "param": self.param, "code": self.code}

    @property
    def body(self) -> bytes:
        """The document."""
        return dumps({"error": self.member})

    @classmethod
    def of(cls, error: A2AError | RequestError) -> Problem:
        """The error for a caller."""
        if isinstance(error, RequestError):
            return cls(error.status, str(error), error.param, error.code)
        if error.blame is Blame.PEER and (known := _OF_THE_AGENT.get(error.reason)) is not None:
            status, text = known
            return cls(status, f"{text}: {error.message}", None, f"agent_{error.reason.name.lower()}")
        # 499 means that the caller has left, and the caller has not.
        status = 500 if error.reason is Reason.CANCELLED else status_of(error)
        return cls(status, error.message, None, error.name.lower())

    @classmethod
    def of_unfit(cls, wanted: Wanted, fault: str) -> Problem:
        """The error for an answer that has not the form that its caller wants. fault: what is missing."""
        text = f"the answer of the agent does not fit {wanted.path}: {fault}"
        return cls(502, text, wanted.path, "output_not_structured")

    @classmethod
    def of_task(cls, answer: Answer, said: str) -> Problem:
        """The error for a task that failed, was rejected or was cancelled. said: what the agent had said
        before, unless the caller has it.
        """
        status = 400 if answer.state == hub.TASK_STATE_REJECTED else 500
        note = answer.note or f"the task of the agent is {answer.word}"
        return cls(status, f"{said}\n\n{note}" if said else note, None, f"task_{answer.word}")


class Chat:
    """The forms of one chat completion."""

    def __init__(self, model: str, *, include_usage: bool = False) -> None:
        self.id = f"chatcmpl-{uuid4().hex}"
        self._model = model
        self._created = int(time.time())
        self._usage = include_usage

    def document(self, text: str) -> dict[str, Any]:
        """The answer as one document."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "annotations": [],
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage}

    def opening(self) -> Iterator[bytes]:
        """The first events of a stream."""
        yield self._chunk({"role": "assistant", "content": "", "refusal": None})

    def delta(self, text: str) -> Iterator[bytes]:
        """The events for new text."""
        yield self._chunk({"content": text})

    def ending(self, _: str) -> Iterator[bytes]:
        """The last events of a stream."""
        yield self._chunk({}, "stop")
        if self._usage:
            usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    def failing(self, problem: Problem, _: str) -> Iterator[bytes]:
        """The last events of a stream that fails."""
        yield _event({"error": problem.member})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._model}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        usage = {"usage": None} if self._usage else {}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice], **usage})


class Response:
    """The forms of one response."""

    def __init__(self, model: str, previous: str, wanted: Wanted | None) -> None:
        number = uuid4().hex
        self.id = f"{RESPONSE}{number}"
        self._item = f"{ITEM}{number}"
        self._model = model
        self._previous = previous or None
        self._format = {"type": "text"} if wanted is None else wanted.document
        self._created = int(time.time())
        self._number = 0

    def document(self, text: str) -> dict[str, Any]:
        """The answer as one document."""
        return self._response("completed", [self._message(text, "completed")])

    def opening(self) -> Iterator[bytes]:
        """The first events of a stream."""
        for kind in ("response.created", "response.in_progress"):
            yield self._event(kind, response=self._response("in_progress", []))
        yield self._event(
            "response.output_item.added", output_index=0, item=self._message(None, "in_progress")
        )
        yield self._event("response.content_part.added", **self._place, part=_content(""))

    def delta(self, text: str) -> Iterator[bytes]:
        """The events for new text."""
        yield self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def ending(self, text: str) -> Iterator[bytes]:
        """The last events of a stream."""
        message = self._message(text, "completed")
        yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place, part=_content(text))
        yield self._event("response.output_item.done", output_index=0, item=message)
        yield self._event("response.completed", response=self._response("completed", [message]))

    def failing(self, problem: Problem, text: str) -> Iterator[bytes]:
        """The last events of a stream that fails."""
        yield self._event("error", code=problem.code, message=problem.message, param=problem.param)
        failed = self._response("failed", [self._message(text, "incomplete")])
        failed["error"] = {"code": "server_error", "message": problem.message}
        yield self._event("response.failed", response=failed)

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **members: Any) -> bytes:
        self._number += 1
        return _event({"type": kind, "sequence_number": self._number - 1, **members}, kind)

    def _message(self, text: str | None, status: str) -> dict[str, Any]:
        content = [] if text is None else [_content(text)]
        return {
            "type": "message",
            "id": self._item,
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        done = status == "completed"
        usage = {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        }
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "model": self._model,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": self._previous,
            "store": False,
            "temperature": None,
            "text": {"format": self._format},
            "tool_choice": "none",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": usage if done else None,
        }


def _content(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _event(tree: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + dumps(tree) + b"\n\n"


def model_document(card: hub.AgentCard, name: str) -> dict[str, Any]:
    """The agent as a model."""
    owner = card.provider.organization or "a2a"
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
