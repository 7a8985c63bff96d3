"""LangGraph: an executor that runs a compiled graph. Importing it imports LangGraph.

Rules:
1. The graph of the user is never changed. A graph without a checkpointer is copied, with one in memory.
2. A conversation is a thread of the graph. Its name is the digest of the conversation's key.
3. A new turn answers the tool calls that an earlier turn left open: models reject a history with open calls.
4. The answer is the messages that the turn has added to the state, as `ainvoke` returns them. Text of a node
   is held back if nodes after it may change it (`langgraph_nodes.py`).
"""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from a2a_bridge.codec import DecodeError
from a2a_bridge.core.errors import invalid_params
from a2a_bridge.core.messages import parts_of, text_of
from a2a_bridge.hosting.executor import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_adapters.card_members import members
from a2a_bridge_adapters.content import Answer, data_text, json_of, jsonable, media_type_of
from a2a_bridge_adapters.conversations import MOST, ConversationKey, Conversations
from a2a_bridge_adapters.executor import ConversationExecutor, awaited
from a2a_bridge_adapters.langgraph_messages import MESSAGES, Spoken
from a2a_bridge_adapters.langgraph_nodes import is_synchronous, last_nodes
from a2a_bridge_adapters.questions import ABANDONED, DECISIONS, Approval, OpenCall, ask

log = logging.getLogger("a2a_bridge.adapters.langgraph")

#: the channel of the structured output of `create_agent`
_STRUCTURED = "structured_response"
_MODES = ["messages", "custom", "updates", "values"]
#: the name of a graph that has none
_UNNAMED = "LangGraph"
#: kinds of content blocks with a file
_FILES = ("image", "audio", "video", "file")

#: the type of its requests for one call
_PER_CALL = "tool_approval"
#: the description of HumanInTheLoopMiddleware for tools without one
_HINT = "Tool execution requires approval"

Content = dict[str, Any]


class GraphExecutor(ConversationExecutor[None]):
    """Runs a compiled graph.

    input: makes the input of the graph from a run. Without it, a graph with a channel `messages` gets a
    HumanMessage; any other graph gets the data parts as its input, and a text as its only member.
    output: makes the content of an artifact from the final state, beside the messages. context: makes the
    context of the graph from a run. All three may be coroutine functions. nodes: the nodes whose messages are
    the answer; empty for all. subgraphs: True to stream the messages of subgraphs too. stream: see
    ConversationExecutor. conversations: the threads that are kept by a graph without a checkpointer. Raises
    TypeError for a graph that is not compiled, stops at breakpoints, or has a synchronous checkpointer.
    """

    def __init__(
        self,
        graph: Any,
        *,
        input: Callable[[Run], Any] | None = None,  # noqa: A002  the name of the parameter of LangGraph
        output: Callable[[Mapping[str, Any]], Any] | None = None,
        context: Callable[[Run], Any] | None = None,
        nodes: Sequence[str] = (),
        subgraphs: bool = False,
        stream: bool | None = None,
        conversations: int = MOST,
    ) -> None:
        if not hasattr(graph, "aget_state") or not hasattr(graph, "builder"):
            raise TypeError(
                f"a {type(graph).__name__} is no compiled StateGraph: give the result of its `compile()`"
            )
        if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
            raise TypeError(
                "the graph stops at breakpoints, which no caller can answer: call `interrupt()` in its nodes"
            )
        if graph.checkpointer and is_synchronous(graph.checkpointer):
            kind = type(graph.checkpointer).__name__
            raise TypeError(
                f"the checkpointer {kind} of the graph is synchronous: give an asynchronous one, such as "
                "AsyncSqliteSaver"
            )
        saver = None
        if not graph.checkpointer:
            saver = InMemorySaver()
            graph = graph.copy({"checkpointer": saver})
        super().__init__(Conversations(conversations, _forgetter(saver)), stream=stream)
        self._kept = saver is not None
        self._graph = graph
        self._input, self._output, self._context = input, output, context
        self._nodes, self._subgraphs, self._last = frozenset(nodes), subgraphs, last_nodes(graph)
        self._members = tuple(graph.builder.schemas[graph.builder.input_schema])

    def read(self, run: Run) -> Any:
        if self._input is not None:
            return self._input(run)  # or an awaitable
        if MESSAGES in self._members:
            return {MESSAGES: [HumanMessage(content_of(run.parts))]}
        given: dict[str, Any] = {}
        for part in run.parts:
            if part.HasField("data"):
                told = json_of(part)
                if not isinstance(told, dict):
                    raise invalid_params("message.parts", "data must be an object")
                given |= told
        if not given and len(self._members) == 1 and run.text:
            return {self._members[0]: run.text}
        if not given or given.keys() - set(self._members):
            raise invalid_params(
                "message.parts", f"one must have data with the members {', '.join(self._members)}"
            )
        return given

    async def open_calls(self, key: ConversationKey, run: Run) -> Sequence[OpenCall]:
        found = await self._graph.aget_state(self._config(key, run))
        return [call for one in found.interrupts for call in calls_of(one)]

    async def begin(
        self, key: ConversationKey, run: Run, answer: Answer, given: Any
    ) -> AsyncGenerator[Event, None]:
        config = self._config(key, run)
        if self._kept:
            self.conversations.keep(key, None)
        if isinstance(given, dict) and isinstance(messages := given.get(MESSAGES), list):
            before = await self._graph.aget_state(config)
            given = {**given, MESSAGES: [*denials(before.values.get(MESSAGES, ())), *messages]}
        async with aclosing(self._work(run, answer, config, given)) as events:
            async for event in events:
                yield event

    async def go_on(
        self, key: ConversationKey, run: Run, answer: Answer, given: Mapping[str, Any]
    ) -> AsyncGenerator[Event, None]:
        config = self._config(key, run)
        if self._kept:
            self.conversations.keep(key, None)
        found = await self._graph.aget_state(config)
        # By id: several interrupts at once have several answers.
        resume = {one.id: resumed(one, given) for one in found.interrupts}
        async with aclosing(self._work(run, answer, config, Command(resume=resume))) as events:
            async for event in events:
                yield event

    def _config(self, key: ConversationKey, run: Run) -> dict[str, Any]:
        """The configuration of a run; nodes find the caller in `configurable`."""
        return {
            "configurable": {
                "thread_id": key.digest,
                "a2a_user": key.principal,
                "a2a_tenant": key.tenant,
                "a2a_context_id": run.context_id,
                "a2a_task_id": run.task_id,
            }
        }

    async def _work(
        self, run: Run, answer: Answer, config: dict[str, Any], given: Any
    ) -> AsyncGenerator[Event, None]:
        """The events of the graph until it ends or asks."""
        spoken = Spoken(answer, self._nodes, self._last)
        extra = {} if self._context is None else {"context": await awaited(self._context(run))}
        stream = self._graph.astream(given, config, stream_mode=_MODES, subgraphs=self._subgraphs, **extra)
        structured = False
        async with aclosing(stream) as items:
            async for item in items:
                (graph, mode, value) = item if self._subgraphs else ((), *item)
                if mode == "custom":
                    for event in _custom(run, answer, value):
                        yield event
                    continue
                for event in spoken.events(graph, mode, value):
                    yield event
                if mode == "updates" and not graph:
                    structured |= _STRUCTURED in _updated(value)
        end = await self._graph.aget_state(config)
        if end.interrupts:
            yield ask(run, [call for one in end.interrupts for call in calls_of(one)])
            return
        output = None if self._output is None else parts_of(await awaited(self._output(end.values)))
        for event in self._settled(answer, spoken, end.values, output):
            yield event
        if structured and end.values.get(_STRUCTURED) is not None:
            yield answer.part(end.values[_STRUCTURED])
        yield run.status(hub.TASK_STATE_COMPLETED)

    def _settled(
        self, answer: Answer, spoken: Spoken, values: Mapping[str, Any], output: Any
    ) -> Iterator[Event]:
        """The events that make the answer that of the final state."""
        names = self._graph.output_channels
        names = [names] if isinstance(names, str) else names
        if MESSAGES in names:
            yield from spoken.settle(values)
            if self._output is not None:
                yield answer.part(output)
            return
        if self._output is None:
            output = {name: values[name] for name in names if name in values}
        yield from answer.settle(output)


def _forgetter(saver: Any) -> Callable[[ConversationKey], None] | None:
    return None if saver is None else lambda key: saver.delete_thread(key.digest)


def _updated(value: Any) -> frozenset[str]:
    """The channels that a value of the stream mode `updates` names."""
    updates = value.values() if isinstance(value, dict) else ()
    return frozenset(name for one in updates if isinstance(one, dict) for name in one)


def content_of(parts: Sequence[hub.Part]) -> str | list[Content]:
    """The content of a message of the user: a text, or blocks if there is anything else."""
    if all(part.HasField("text") for part in parts):
        return text_of(parts)
    return [_block(part) for part in parts]


def _block(part: hub.Part) -> Content:
    match part.WhichOneof("content"):
        case "text":
            return {"type": "text", "text": part.text}
        case "data":
            return {"type": "text", "text": data_text(part)}
    media_type = media_type_of(part)
    kind = media_type.partition("/")[0]
    made: Content = {"type": kind if kind in _FILES else "file", "mime_type": media_type}
    if part.HasField("url"):
        made["url"] = part.url
    else:
        made["base64"] = base64.b64encode(part.raw).decode()
    if part.filename:
        made["extras"] = {"filename": part.filename}
    return made


def _custom(run: Run, answer: Answer, value: Any) -> Iterator[Event]:
    """The events for a value of `get_stream_writer`: a Part is an artifact, all else a status."""
    if isinstance(value, hub.Part):
        yield answer.part(value)
        return
    try:
        yield run.status(hub.TASK_STATE_WORKING, value if isinstance(value, str) else jsonable(value))
    except (DecodeError, ValueError):
        log.warning("a custom value of type %s is no JSON, and is dropped", type(value).__name__)


def calls_of(interrupt: Any) -> list[OpenCall]:
    """The calls of an interrupt: the tools of a request of HumanInTheLoopMiddleware, or one question."""
    value, requests = interrupt.value, _requests(interrupt.value)
    if requests is None:
        return [OpenCall(interrupt.id, jsonable(value))]
    calls = []
    for place, one in enumerate(requests):
        allowed = DECISIONS.intersection(_decisions(value, one["name"]))
        calls.append(
            OpenCall(
                _call_id(interrupt, place, requests),
                jsonable(one["args"]),
                one["name"],
                approval=bool(allowed),  # else the answer is the result of the tool
                decisions=allowed,
                hint=_hint(one),
            )
        )
    return calls


def _hint(request: Mapping[str, Any]) -> str:
    """The description of a tool for people, without the name and the arguments, which are told."""
    told = f"\n\nTool: {request['name']}\nArgs: {request['args']}"
    hint = str(request.get("description") or "").removesuffix(told)
    return "" if hint == _HINT else hint


def resumed(interrupt: Any, given: Mapping[str, Any]) -> Any:
    """The value that an interrupt returns."""
    requests = _requests(interrupt.value)
    if requests is None:
        return given[interrupt.id]
    decisions = [
        _decision(one, given[_call_id(interrupt, place, requests)]) for place, one in enumerate(requests)
    ]
    return decisions[0] if interrupt.value.get("type") == _PER_CALL else {"decisions": decisions}


def _requests(value: Any) -> Sequence[Any] | None:
    """The tools of a request of HumanInTheLoopMiddleware, for all calls or for one; None for a question."""
    if not isinstance(value, dict):
        return None
    if value.get("type") == _PER_CALL:
        return [value]
    requests = value.get("action_requests")
    return requests if isinstance(requests, list) else None


def _decisions(review: Mapping[str, Any], name: str) -> Sequence[str]:
    """The decisions that a review allows for a tool."""
    for one in review.get("review_configs", ()):
        if one.get("action_name") == name:
            return tuple(one["allowed_decisions"])
    return ("approve", "reject")


def _call_id(interrupt: Any, place: int, requests: Sequence[Any]) -> str:
    return str(interrupt.id) if len(requests) == 1 else f"{interrupt.id}:{place + 1}"


def _decision(request: Mapping[str, Any], given: Any) -> dict[str, Any]:
    match given:
        case Approval(approved=True, arguments=None):
            return {"type": "approve"}
        case Approval(approved=True, arguments=arguments):
            return {"type": "edit", "edited_action": {"name": request["name"], "args": arguments}}
        case Approval(reason=reason):
            return {"type": "reject", "message": reason} if reason else {"type": "reject"}
    return {"type": "respond", "message": given if isinstance(given, str) else str(given)}


def denials(messages: Sequence[Any]) -> list[Any]:
    """Results for the tool calls at the end of a history that have none."""
    done = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            done.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [
                ToolMessage(ABANDONED, tool_call_id=call["id"], name=call["name"], status="error")
                for call in message.tool_calls
                if call["id"] not in done
            ]
    return []


def members_of(graph: Any) -> dict[str, Any]:
    """The members of a card that a graph has: its own name, and the tools of its nodes."""
    name = graph.get_name()
    nodes = [getattr(one, "runnable", None) for one in graph.builder.nodes.values()]
    tools = [tool for one in nodes for tool in getattr(one, "tools_by_name", {}).values()]
    return members("" if name == _UNNAMED else name, tools=tools)


EXECUTOR = GraphExecutor
