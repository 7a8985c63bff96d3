"""An agent as the tools of an MCP server, over stdio or streamable HTTP, in both eras of the protocol.

Rules:
1. One tool a skill, all of which send their message to the same agent, and `task_status`.
2. A call ends after `patience` seconds with the id of the task, which goes on; `task_status` waits for it.
3. A call that its client cancels cancels the task.
4. An agent that asks: the client is asked by elicitation, within the call (until 2025-11-25) or by a result
   that asks for a further call (2026-07-28). A client without it gets the question, and goes on with `task`.
5. A conversation belongs to a caller and a session. Requests of 2026-07-28 over HTTP have no session: their
   results name the conversation, and `conversation` continues it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from a2a_bridge.bindings.memory import MOST_BYTES, in_work, size_of
from a2a_bridge.bindings.shares import SharedTable
from a2a_bridge.codec import DecodeError
from a2a_bridge.codec.values import describe
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.callers import Permit
from a2a_bridge.core.errors import A2AError
from a2a_bridge.core.messages import AT_REST, data_part, text_part
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.fronts.callers import context_for, may_send, owner_of
from a2a_bridge_adapters.fronts.conversations import MOST, context_of, new_name
from a2a_bridge_adapters.fronts.mcp_content import add_text, failure, result_of
from a2a_bridge_adapters.fronts.mcp_requests import invalid_params
from a2a_bridge_adapters.fronts.mcp_tools import STATUS_TOOL, Offered, Toolbox, Tools, tools_of
from a2a_bridge_adapters.fronts.turn import Answer, Shown, Turn, Upstream, answer_of, size_of_shown

_log = logging.getLogger("a2a_bridge.fronts")

#: the name of the front, for logs and metrics
BINDING = "MCP"
#: seconds of a call: clients give up after 60
WAIT = 50.0
#: seconds for a person to answer a question
ELICITATION = 600.0
#: seconds between two looks of `task_status`
_PAUSE = 0.5
_HANDLE = re.compile(r"[0-9a-f]{32}")
_ANSWER = "answer"


class ArgumentError(ValueError):
    """An argument of a tool is not valid; the text names it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    message: str
    data: dict[str, Any] | None
    task: str
    conversation: str

    @classmethod
    def of(cls, arguments: Mapping[str, Any] | None) -> Call:
        """The arguments of a call. Those that are null, and unknown ones such as n8n's `toolCallId`, count as
        absent. Raises ArgumentError.
        """
        given = {name: value for name, value in (arguments or {}).items() if value is not None}
        texts = {name: given.get(name, "") for name in ("message", "task", "conversation")}
        for name, value in texts.items():
            check_text(name, value)
        data = given.get("data")
        if data is not None and not isinstance(data, dict):
            raise ArgumentError(f"data: is a JSON object, not {describe(data)}")
        if not texts["message"].strip() and data is None:
            raise ArgumentError("message: is missing")
        if texts["conversation"] and not _HANDLE.fullmatch(texts["conversation"]):
            raise ArgumentError("conversation: is none that a result has named")
        return cls(texts["message"], data, texts["task"], texts["conversation"])

    def parts(self) -> list[hub.Part]:
        """The content for the agent. Raises ArgumentError."""
        found = [text_part(self.message)] if self.message else []
        if self.data is not None:
            try:
                found.append(data_part(self.data))
            except DecodeError as error:
                raise ArgumentError(f"data: {error}") from None
        return found


def check_text(name: str, value: Any) -> None:
    """Raises ArgumentError for anything but text that can be sent."""
    if not isinstance(value, str):
        raise ArgumentError(f"{name}: is text, not {describe(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{name}: has half of a surrogate pair") from None


class McpServer:
    """The MCP server of some agents. fronts: see `Tools`. name, version, instructions: for clients."""

    def __init__(
        self,
        fronts: Mapping[str, Toolbox],
        name: str,
        version: str = "",
        instructions: str | None = None,
    ) -> None:
        self._tools = Tools(fronts)
        self.server: Server[Any] = Server(
            name,
            version=version,
            instructions=instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
            # Some clients always request these lists, and treat an error as a broken server.
            on_list_prompts=_no_prompts,
            on_list_resources=_no_resources,
            on_list_resource_templates=_no_templates,
        )
        security = RequestStateSecurity.ephemeral(ttl=ELICITATION)
        security.bind_principal = lambda context: owner_of(_context(context))
        self.server.middleware += [
            RequestStateBoundary(security, default_audience=name),
            self._answer,
        ]

    @classmethod
    def of(cls, front: McpFront) -> McpServer:
        """The server of one agent."""
        card = front.card
        return cls({"": front}, card.name or "agent", card.version, card.description or None)

    async def _answer(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware of the SDK: an error names the member, and a caller that may use no agent does not learn
        what they are.
        """
        try:
            result = await call_next(ctx)
        except ValidationError as error:
            raise invalid_params(error) from None
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            principal = _context(ctx).principal
            if not any(may_send(front.permit, principal) for front in self._tools.fronts.values()):
                result.pop("instructions", None)
                result["serverInfo"] = {"name": "agents", "version": ""}
        return result

    async def _list(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        principal = _context(context).principal
        cursor = None if params is None else params.cursor
        try:
            page, after = self._tools.page(cursor, lambda front: may_send(front.permit, principal))
        except LookupError:
            text = "cursor: names no tool that is here now; begin the list again"
            raise MCPError(types.INVALID_PARAMS, text) from None
        return types.ListToolsResult(tools=page, next_cursor=after)

    async def _call(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        found = self._tools.find(params.name)
        if found is not None and found.front.permit is not None:
            call = _context(context)
            if not may_send(found.front.permit, call.principal):
                await found.front.deny(call)
                found = None
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}")
        return await found.front.call(context, params, found)


class McpFront:
    """An agent as tools. patience: seconds of a call. permit: see `HostOptions`; None: everybody may call."""

    def __init__(self, upstream: Upstream, *, patience: float = WAIT, permit: Permit | None = None) -> None:
        self._upstream = upstream
        self._patience = patience
        self.permit = permit
        #: the parts of waiting tasks that a caller has, by owner and task
        self._shown: SharedTable[Shown] = SharedTable(MOST, upstream.tables, most_bytes=MOST_BYTES)
        #: the tasks of running calls, and whether they end because the server stops
        self._running: set[asyncio.Task[Any]] = set()
        self._is_stopping = False
        #: True when the agent has left its server
        self.is_closed = False
        #: the conversation of a caller at the other end of a pipe
        self._pipe = new_name()
        #: the card that `_tools` was made from
        self._card: hub.AgentCard | None = None
        self._tools: list[types.Tool] = []

    @property
    def card(self) -> hub.AgentCard:
        """Of the agent now."""
        return self._upstream.card

    @property
    def tools(self) -> list[types.Tool]:
        """The tools. They are made once for each card."""
        card = self._upstream.card
        if card is not self._card:
            self._tools = tools_of(card)
            self._card = card
        return self._tools

    async def deny(self, context: CallContext) -> None:
        """Has the access rules reject a call, so that it counts as one."""
        await self._upstream.deny(context)

    async def call(
        self,
        context: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        offered: Offered,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The result of a call of a tool."""
        call = _context(context)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  for the type checker
        self._running.add(task)
        try:
            if offered.own == STATUS_TOOL:
                return await self._status(context, params, call, offered)
            return await self._send(context, params, call, offered)
        except ArgumentError as error:
            return failure(str(error))
        except A2AError as error:
            return failure(f"{error.name}: {error.message}")
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            task.uncancel()
            return failure("UNAVAILABLE: the server is shutting down")
        finally:
            self._running.discard(task)

    def end_calls(self) -> None:
        """Ends running calls with an error. Their tasks are cancelled."""
        self._is_stopping = True
        for task in self._running:
            task.cancel()

    async def _send(
        self,
        context: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        call: CallContext,
        offered: Offered,
    ) -> types.CallToolResult | types.InputRequiredResult:
        given = Call.of(params.arguments)
        owner = owner_of(call)
        name, shows_name = self._conversation(context, given)
        message = hub.Message(message_id=new_name(), role=hub.ROLE_USER, parts=given.parts())
        message.task_id = given.task
        if not given.task:
            message.context_id = context_of(BINDING, owner, name)
        if params.request_state:
            reply = _reply_of(params.input_responses)
            if reply is None:
                await self._upstream.cancel(params.request_state, call)
                return failure(_DECLINED)
            message = _continuing(params.request_state, reply)
        # The result has the content of all turns of this call, so that a question in between loses none.
        shown = self._shown.get((owner, given.task)) or {}
        while True:
            answer = await self._turn(context, message, call, shown, offered)
            if isinstance(answer, types.CallToolResult):
                return answer
            question = None
            if answer.state == hub.TASK_STATE_INPUT_REQUIRED and _elicits(context):
                question = _question(answer)
            if question is not None and context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                asking = types.ElicitRequest(params=question)
                return types.InputRequiredResult(
                    input_requests={_ANSWER: asking}, request_state=answer.task_id
                )
            if question is not None:
                # What has been said waits for the person, and counts as a response in work.
                waiting = size_of_shown(answer.shown) + sum(part.ByteSize() for part in answer.parts)
                in_work.add(waiting)
                try:
                    reply = await self._elicit(context, question, answer, call)
                except MCPError as error:
                    # It said that it can ask, and cannot: it gets the question as a client without that.
                    _log.info("a client did not ask the question of an agent: %s", error)
                else:
                    if reply is None:
                        return failure(_DECLINED)
                    message = _continuing(answer.task_id, reply)
                    continue
                finally:
                    in_work.add(-waiting)
            result = result_of(answer)
            if answer.waits:
                self._keep_shown(owner, answer)
                add_text(result, f"The task waits for an answer. Call again with task={answer.task_id}")
            elif shows_name:
                # `structuredContent` stays: a client that gives its model nothing else begins anew.
                text = f"To go on with this conversation, call with conversation={name}"
                result.content.append(types.TextContent(text=text))
            return result

    def _keep_shown(self, owner: str, answer: Answer) -> None:
        """Remembers the parts that the caller of a waiting task has."""
        size = size_of(owner, answer.task_id) + size_of_shown(answer.shown)
        self._shown.put((owner, answer.task_id), answer.shown, size)

    def _conversation(self, context: ServerRequestContext[Any, Any], given: Call) -> tuple[str, bool]:
        """The name of the conversation, and whether the caller has to be told."""
        if given.conversation:
            return given.conversation, False
        if context.request is None:
            return self._pipe, False
        session = context.request.headers.get("mcp-session-id", "")
        if session and context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return f"session {session}", False
        return new_name(), True

    async def _turn(
        self,
        context: ServerRequestContext[Any, Any],
        message: hub.Message,
        call: CallContext,
        shown: Shown,
        offered: Offered,
    ) -> Answer | types.CallToolResult:
        """The answer to a message; a result if the agent takes longer. Raises A2AError."""
        async with Turn(self._upstream, message, call, shown) as turn:
            steps = 0
            late = asyncio.get_running_loop().time() + self._patience
            while True:
                try:
                    update = await turn.next_until(late)
                except TimeoutError:
                    turn.leave(cancels=False)
                    return _working(turn.task_id, turn.answer, offered)
                if update is None:
                    return turn.answer
                steps += 1
                text = update.progress or "".join(one.text for one in update.parts)
                await context.session.report_progress(steps, message=text or None)

    async def _elicit(
        self,
        context: ServerRequestContext[Any, Any],
        question: types.ElicitRequestFormParams,
        answer: Answer,
        call: CallContext,
    ) -> str | None:
        """What the person answers; None for a refusal. Without an answer the task is cancelled, also if the
        call ends meanwhile. Raises MCPError if the client cannot ask; the task waits then.
        """
        reply, waits = None, False
        try:
            async with asyncio.timeout(ELICITATION):
                found = await context.session.elicit_form(
                    question.message, question.requested_schema, context.request_id
                )
            reply = _reply_of({_ANSWER: found})
        except TimeoutError:
            _log.info("nobody has answered the question of an agent within %g s", ELICITATION)
        except MCPError:
            waits = True
            raise
        finally:
            if reply is None and not waits:
                self._upstream.spawn(self._upstream.cancel(answer.task_id, call))
        return reply

    async def _status(
        self,
        context: ServerRequestContext[Any, Any],
        params: types.CallToolRequestParams,
        call: CallContext,
        offered: Offered,
    ) -> types.CallToolResult:
        given = params.arguments or {}
        task_id: Any = given.get("task")
        if not task_id:
            raise ArgumentError("task: is missing")
        check_text("task", task_id)
        late = asyncio.get_running_loop().time() + self._patience
        steps = 0
        answer = None
        while True:
            try:
                # The last look at the task has some time, too, and a short wait allows one.
                async with asyncio.timeout_at(max(late, asyncio.get_running_loop().time() + _PAUSE)):
                    task = await self._upstream.task(task_id, call)
            except TimeoutError:
                if answer is None:
                    return failure(_SILENT.format(tool=offered.tool.name, task=task_id))
                return _working(task_id, answer, offered)
            answer = answer_of(task)
            if task.status.state in AT_REST:
                break
            if asyncio.get_running_loop().time() + _PAUSE > late:
                return _working(task_id, answer, offered)
            steps += 1
            await context.session.report_progress(steps, message=answer.note or None)
            await asyncio.sleep(_PAUSE)
        result = result_of(answer)
        if answer.waits:
            self._keep_shown(owner_of(call), answer)
            tool = next(iter(offered.names.values()))
            add_text(result, f"The task waits for an answer. Call {tool} with task={task_id}")
        return result


_DECLINED = "the question of the agent was not answered; its task is cancelled"
_SILENT = "The agent has not said how the task goes. Call {tool} again with task={task}"


def _working(task_id: str, answer: Answer, offered: Offered) -> types.CallToolResult:
    """The result of a call that ends before its task."""
    result = result_of(answer)
    add_text(
        result, f"The task is still {answer.word}. Call {offered.names[STATUS_TOOL]} with task={task_id}"
    )
    return result


async def _no_prompts(*_: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[])


async def _no_resources(*_: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


async def _no_templates(*_: Any) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[])


def _continuing(task_id: str, reply: str) -> hub.Message:
    return hub.Message(message_id=new_name(), role=hub.ROLE_USER, parts=[text_part(reply)], task_id=task_id)


def _context(context: ServerRequestContext[Any, Any]) -> CallContext:
    return context_for(BINDING, None if context.request is None else context.request.scope)


def _elicits(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client can ask its user for text."""
    known = context.session.client_capabilities
    found = None if known is None else known.elicitation
    return found is not None and (found.form is not None or found.url is None)


def _question(answer: Answer) -> types.ElicitRequestFormParams:
    schema = {
        "type": "object",
        "properties": {_ANSWER: {"type": "string", "title": "Answer"}},
        "required": [_ANSWER],
    }
    text = answer.note or "The agent waits for an answer."
    return types.ElicitRequestFormParams(message=text, requested_schema=schema)


def _reply_of(responses: Mapping[str, Any] | None) -> str | None:
    """The answer to a question; None for a refusal."""
    found = (responses or {}).get(_ANSWER)
    if not isinstance(found, types.ElicitResult) or found.action != "accept":
        return None
    value = (found.content or {}).get(_ANSWER)
    if value is None:
        return None
    check_text(_ANSWER, str(value))
    return str(value)
