"""From what an agent says to the result of an MCP tool."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from mcp import types
from pydantic import AnyUrl, TypeAdapter, ValidationError

from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.content import json_of
from a2a_bridge_adapters.fronts.turn import Answer

#: members of `_meta`
TASK_META, STATE_META = "a2a-bridge/task", "a2a-bridge/state"


def result_of(answer: Answer) -> types.CallToolResult:
    """The result of a turn that has ended. Failed, rejected and canceled tasks are errors."""
    parts = [*answer.parts, *answer.note_parts]
    state = answer.word
    result = types.CallToolResult(
        content=list(content_of(parts)),
        structured_content=structured(parts),
        is_error=answer.failed,
        _meta={TASK_META: answer.task_id, STATE_META: state} if answer.task_id else None,
    )
    # The status of a completed task with artifacts is a remark such as "done".
    if answer.note and (not result.content or answer.failed or answer.waits):
        add_text(result, answer.note)
    if answer.failed and not answer.note:
        add_text(result, f"the task is {state}")
    return result


def add_text(result: types.CallToolResult, text: str) -> None:
    """Adds text that a model needs: many clients give it nothing else if there is `structuredContent`."""
    result.content.append(types.TextContent(text=text))
    result.structured_content = None


def failure(text: str) -> types.CallToolResult:
    """A result that says why a tool failed."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def content_of(parts: Iterable[hub.Part]) -> Iterator[types.ContentBlock]:
    """The blocks of an agent's parts: texts that follow each other are one, a URL is a link, bytes are an
    image, a sound or an embedded resource, and data is JSON text (it may be in `structured` too). A URL that
    clients could not read, such as a relative one, is text: it would make them reject the whole result.
    """
    texts: list[str] = []
    number = 0
    for part in parts:
        which = part.WhichOneof("content")
        if which == "text" or (which == "url" and not _is_url(part.url)):
            texts.append(part.text or part.url)
            continue
        if texts:
            yield types.TextContent(text="".join(texts))
            texts = []
        number += 1
        if which == "url":
            yield types.ResourceLink(
                name=part.filename or _last_segment(part.url) or f"file-{number}",
                uri=part.url,
                mime_type=part.media_type or None,
            )
        elif which == "raw":
            yield _file(part, number)
        elif which == "data":
            yield types.TextContent(text=json.dumps(json_of(part), ensure_ascii=False))
    if texts:
        yield types.TextContent(text="".join(texts))


def _file(part: hub.Part, number: int) -> types.ContentBlock:
    data, kind = base64.b64encode(part.raw).decode(), part.media_type or "application/octet-stream"
    if kind.startswith("image/"):
        return types.ImageContent(data=data, mime_type=kind)
    if kind.startswith("audio/"):
        return types.AudioContent(data=data, mime_type=kind)
    name = part.filename or f"file-{number}"
    resource = types.BlobResourceContents(uri=f"attachment:{quote(name)}", mime_type=kind, blob=data)
    return types.EmbeddedResource(resource=resource)


def _is_url(text: str) -> bool:
    """Whether it is a URL for the clients of the official SDK, which read it by pydantic."""
    try:
        _URL.validate_python(text)
    except ValidationError:
        return False
    return True


_URL: TypeAdapter[AnyUrl] = TypeAdapter(AnyUrl)


def _last_segment(url: str) -> str:
    try:
        return unquote(urlsplit(url).path.rpartition("/")[2])
    except ValueError:
        return ""


def structured(parts: Iterable[hub.Part]) -> dict[str, Any] | None:
    """The data of an answer that is nothing else, as one object: the only object itself, other values below
    `data`. None for any other answer: many clients give their model the data alone then.
    """
    parts = list(parts)
    if not parts or any(part.WhichOneof("content") != "data" for part in parts):
        return None
    found = [json_of(part) for part in parts]
    if len(found) == 1:
        return found[0] if isinstance(found[0], dict) else {"data": found[0]}
    return {"data": found}
