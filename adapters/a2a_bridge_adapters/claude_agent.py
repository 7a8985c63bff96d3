"""The Claude Agent SDK: an executor that runs Claude Code with given options. Importing it imports that SDK.

Rules:
1. Each turn is a process of Claude Code, which resumes the session of the conversation. The history is that
   of the session: a turn that fails or is cancelled stays in it, as far as Claude Code has written it.
2. A call that needs a permission waits for the caller, and its process with it. `AskUserQuestion` is a
   question.
3. A message of a caller is text for the model: Claude Code expands no `@path` and runs no command in it.
4. The answer is the result of the turn, or its structured output.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from a2a_bridge.core.errors import A2AError, Reason, invalid_params
from a2a_bridge.hosting.executor import Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import (
    bare_media_type_of,
    data_text,
    file_part,
    json_text,
    jsonable,
    media_type_of,
    url_part,
)
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import awaited
from a2a_bridge_adapters.live_turns import AbandonedError, LiveTurn, LiveTurnExecutor, Said
from a2a_bridge_adapters.questions import ABANDONED, DENIED, Approval, OpenCall

Block = dict[str, Any]

#: seconds that Claude Code has to end a turn that is cancelled, or whose questions nobody answers
GRACE = 2.0
#: bytes of a message of Claude Code, unless the options say otherwise: the SDK's own limit stops at one image
LARGEST = 64 * 1024 * 1024

#: the tool of Claude Code that asks the user
_QUESTION = "AskUserQuestion"
#: the images that models take
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"
#: the options that name a session, which would be that of all callers
_OF_ALL = ("continue_conversation", "session_id")


class ClaudeAgentExecutor(LiveTurnExecutor[str]):
    """Runs Claude Code with options of the Claude Agent SDK. The state of a conversation is its session id.

    options_for: makes the options of a turn from its run, such as a `cwd` for each caller; it may be a
    coroutine function. stream: see ConversationExecutor. conversations: the sessions that are kept. Raises
    TypeError for an object that is no ClaudeAgentOptions, ValueError for options with a session of all
    callers.
    """

    grace = GRACE

    def __init__(
        self,
        options: Any,
        *,
        options_for: Callable[[Run], Any] | None = None,
        stream: bool | None = None,
        conversations: int = MOST,
    ) -> None:
        super().__init__(Conversations(conversations), stream=stream)
        self._options, self._options_for = _checked(options), options_for

    def read(self, run: Run) -> Sequence[Block]:
        content = [content_of(part) for part in run.parts]
        # The API takes no empty text.
        content = [block for block in content if block["type"] != "text" or block["text"].strip()]
        if not content:
            raise invalid_params("message.parts", "the agent takes no empty message")
        return content

    async def work(self, key: ConversationKey, run: Run, given: Any, turn: LiveTurn) -> Sequence[Any]:
        options = self._options
        if self._options_for is not None:
            options = _checked(await awaited(self._options_for(run)))
        session = self.conversations.get(key)
        if session is not None:
            options = replace(options, resume=session, fork_session=False, resume_session_at=None)
        elif options.resume is not None:
            options = replace(options, fork_session=True)  # each conversation begins with a copy of it
        options = _with_questions(options, turn)
        spoken = _Spoken(options)
        async with ClaudeSDKClient(options) as client:
            try:
                await client.query(_prompt(given))
                async with aclosing(client.receive_response()) as received:
                    async for message in received:
                        if isinstance(message, (StreamEvent, AssistantMessage, ResultMessage)) and (
                            message.session_id
                        ):
                            # Not before: Claude Code knows no session without a message.
                            self.conversations.keep(key, message.session_id)
                        if isinstance(message, ResultMessage):
                            return _contents(message)
                        for output in spoken.outputs(message):
                            turn.tell(output)
            except asyncio.CancelledError:
                if not turn.open_calls:  # else it waits for the caller, and has nothing to stop
                    await _interrupt(client)
                raise
        raise RuntimeError("Claude Code ended without a result")


async def _interrupt(client: ClaudeSDKClient) -> None:
    """Lets Claude Code stop its tools, and write the end of the turn into the session."""
    try:
        async with asyncio.timeout(GRACE):
            await client.interrupt()
            async for _ in client.receive_response():
                pass
    except Exception:  # noqa: BLE001  it did not obey, or is gone: the SDK ends the process
        return


def _checked(options: Any) -> ClaudeAgentOptions:
    if not isinstance(options, ClaudeAgentOptions):
        raise TypeError(
            f"a {type(options).__name__} cannot be served by the Claude Agent SDK: give ClaudeAgentOptions"
        )
    for name in _OF_ALL:
        if getattr(options, name):
            raise ValueError(
                f"the options have {name}, a session of all callers: each conversation gets its own"
            )
    return options


def _with_questions(options: ClaudeAgentOptions, turn: LiveTurn) -> ClaudeAgentOptions:
    """The options of a turn whose permissions are questions, unless the user has an own way to decide."""
    options = replace(
        options, include_partial_messages=True, max_buffer_size=options.max_buffer_size or LARGEST
    )
    if options.can_use_tool is not None or options.permission_prompt_tool_name is not None:
        return options

    async def can_use_tool(name: str, arguments: Block, context: Any) -> Any:
        call = call_of(name, arguments, context)
        try:
            return decision(arguments, await turn.ask(call))
        except AbandonedError:
            return PermissionResultDeny(message=ABANDONED, interrupt=True)

    return replace(options, can_use_tool=can_use_tool)


def call_of(name: str, arguments: Block, context: Any) -> OpenCall:
    """A call that needs a permission as an open call."""
    call_id, value = context.tool_use_id, jsonable(arguments)
    if name != _QUESTION:
        return OpenCall(call_id, value, name, approval=True, hint=context.decision_reason or "")
    questions = value.get("questions") or [value]
    return OpenCall(call_id, questions[0] if len(questions) == 1 else value)


def decision(arguments: Block, given: Any) -> Any:
    """The answer of the caller as the SDK takes it."""
    if isinstance(given, Approval):
        if given.approved:
            changed = None if given.arguments is None else dict(given.arguments)
            return PermissionResultAllow(updated_input=changed)
        return PermissionResultDeny(message=given.reason or DENIED)
    questions = [one["question"] for one in arguments.get("questions") or ()]
    by_question = given if isinstance(given, dict) and set(given) == set(questions) else None
    answers = {one: json_text((by_question or {}).get(one, given)) for one in questions}
    return PermissionResultAllow(updated_input={**arguments, "answers": answers})


async def _prompt(content: Sequence[Block]) -> AsyncIterator[Block]:
    """The message of a user. client_composed: its text is not expanded, see `verbatim_prompts` of the SDK."""
    message = {"role": "user", "content": list(content)}
    yield {"type": "user", "message": message, "parent_tool_use_id": None, "client_composed": True}


def _contents(result: ResultMessage) -> Sequence[Any]:
    """The contents of the answer. Raises RuntimeError for a turn that failed."""
    if result.is_error:
        said = "; ".join(result.errors or ()) or result.result
        raise RuntimeError(f"Claude Code failed with {result.subtype}: {said}")
    if result.structured_output is not None:
        return [result.structured_output]
    return [result.result or ""]


class _Spoken:
    """The outputs of a turn, from its messages. Those of subagents are none."""

    def __init__(self, options: ClaudeAgentOptions) -> None:
        #: text beside a structured output is no part of the answer
        self._is_text = options.output_format is None
        #: such hooks replace text that is shown
        self._guarded = "MessageDisplay" in (options.hooks or ())
        self._message = ""
        #: the names of the tools by the ids of their calls
        self._tools: dict[str, str] = {}

    def outputs(self, message: Any) -> Iterator[Said | hub.Part]:
        """The outputs in a message."""
        if getattr(message, "parent_tool_use_id", None) is not None:
            return
        if isinstance(message, StreamEvent):
            yield from self._text(message.event)
        elif isinstance(message, (AssistantMessage, UserMessage)):
            for block in message.content:
                if isinstance(block, ToolUseBlock):
                    self._tools[block.id] = block.name
                # Of tools of the agent alone: a built-in tool shows the model what is on the disk.
                elif isinstance(block, ToolResultBlock) and self._tools.get(block.tool_use_id, "").startswith(
                    "mcp__"
                ):
                    yield from files_of(block.content)

    def _text(self, event: Mapping[str, Any]) -> Iterator[Said]:
        match event:
            case {"type": "message_start", "message": {"id": name}}:
                self._message = str(name)
            case {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "text_delta", "text": str(text)},
            } if self._is_text:
                yield Said(f"{self._message} {index}", text, self._guarded)


def content_of(part: hub.Part) -> Block:
    """A part as a block of content. Raises A2AError for a file that Claude has no block for."""
    match part.WhichOneof("content"):
        case "text":
            return {"type": "text", "text": part.text}
        case "data":
            return {"type": "text", "text": data_text(part)}
    media_type = bare_media_type_of(part)
    is_text = media_type.startswith("text/") or media_type == "application/json"
    if part.HasField("url") and (media_type in _IMAGES or media_type == _PDF):
        source: Block = {"type": "url", "url": part.url}
    elif part.HasField("raw") and (media_type in _IMAGES or media_type == _PDF):
        encoded = base64.b64encode(part.raw).decode()
        source = {"type": "base64", "media_type": media_type, "data": encoded}
    elif part.HasField("raw") and is_text:
        told = part.raw.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": told}
    else:
        raise A2AError(
            Reason.CONTENT_TYPE_NOT_SUPPORTED,
            f"the agent takes no such file of type {media_type[:100]}; it takes {', '.join(sorted(_IMAGES))},"
            f" {_PDF}, and text as bytes",
        )
    if media_type in _IMAGES:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, **({"title": part.filename} if part.filename else {})}


def files_of(content: Any) -> Iterator[hub.Part]:
    """The files in the result of a tool."""
    for block in content if isinstance(content, list) else ():
        if block.get("type") not in ("image", "document"):
            continue
        source, name = block.get("source") or {}, block.get("title") or ""
        match source.get("type"):
            case "base64":
                made = file_part(base64.b64decode(source["data"]), source.get("media_type", ""), name)
            case "text":
                # All text is text/plain here; its name says more.
                made = file_part(source["data"].encode(), "" if name else "text/plain", name)
            case "url":
                made = url_part(source["url"], "", name)
            case _:
                continue
        made.media_type = media_type_of(made)
        yield made


def members_of(options: Any) -> dict[str, Any]:
    """The members of a card that options have: subagents are skills."""
    agents = [
        SimpleNamespace(name=name, description=one.description)
        for name, one in (options.agents or {}).items()
    ]
    return members(None, instructions=options.system_prompt, tools=agents)


EXECUTOR = ClaudeAgentExecutor
