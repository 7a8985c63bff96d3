"""A stand-in for a compiled graph of langgraph 1.2, whose model does what the newest message says.

It has the interface that the adapter uses, and its rules: a thread keeps the messages, new input drops open
interrupts, `Command(resume=…)` answers them by id. `make frameworks` has the real package.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, new_id

from a2a_bridge.ext import hub
from langgraph.types import Command, Interrupt, StateSnapshot
from tests.frameworks.adapted.replies import Call, done, replies


@dataclass
class _Thread:
    messages: list[Any] = field(default_factory=list)
    interrupts: list[Interrupt] = field(default_factory=list)


class State: ...


#: the only node that gives text, and those beside it
NODES = {"model": SimpleNamespace(ends=()), "tools": SimpleNamespace(ends=())}


class Pregel:
    interrupt_before_nodes: tuple[str, ...] = ()
    interrupt_after_nodes: tuple[str, ...] = ()
    output_channels = ("messages",)

    def __init__(self, checkpointer: Any = None) -> None:
        self.checkpointer = checkpointer
        self.channels = {"messages": None, "__start__": None}
        self.builder = SimpleNamespace(
            schemas={State: {"messages": None}},
            input_schema=State,
            nodes=NODES,
            edges={("__start__", "model"), ("tools", "model")},
            waiting_edges=set(),
            branches={"model": {"tools": SimpleNamespace(ends={"tools": "tools", "end": "__end__"})}},
        )

    def get_name(self) -> str:
        return "LangGraph"

    def copy(self, update: dict[str, Any]) -> Pregel:
        return type(self)(**{"checkpointer": self.checkpointer, **update})

    def get_subgraphs(self, *, recurse: bool) -> tuple[tuple[str, Pregel], ...]:
        return ()

    def _thread(self, config: dict[str, Any]) -> _Thread:
        found = self.checkpointer.threads.setdefault(config["configurable"]["thread_id"], _Thread())
        assert isinstance(found, _Thread)
        return found

    async def aget_state(self, config: dict[str, Any]) -> StateSnapshot:
        thread = self._thread(config)
        return StateSnapshot({"messages": list(thread.messages)}, tuple(thread.interrupts))

    async def astream(
        self, given: Any, config: dict[str, Any], *, stream_mode: list[str], subgraphs: bool = False
    ) -> AsyncIterator[Any]:
        thread = self._thread(config)
        if isinstance(given, Command):
            for one in _results(thread, given.resume):
                thread.messages.append(one)
        else:
            thread.messages += given["messages"]
        thread.interrupts = []
        yield ("values", {"messages": list(thread.messages)})
        step = 0
        while True:
            step += 1
            about = {"langgraph_node": "model", "langgraph_checkpoint_ns": f"model:{step}"}
            _check(thread.messages)
            name, whole = new_id(), AIMessage("")
            async for chunk in _said(thread.messages):
                chunk.id = whole.id = name
                whole.content += chunk.content
                whole.tool_calls += chunk.tool_calls
                yield ("messages", (chunk, about))
            thread.messages.append(whole)
            yield ("updates", {"model": {"messages": [whole]}})
            yield ("values", {"messages": list(thread.messages)})
            if not whole.tool_calls:
                return
            if whole.tool_calls[0]["name"] == "report":
                yield ("custom", "writing")
                yield ("custom", hub.Part(raw=b"a,b\n", media_type="text/csv", filename="table.csv"))
                called = whole.tool_calls[0]["id"]
                thread.messages.append(ToolMessage("written", tool_call_id=called, name="report"))
                yield ("values", {"messages": list(thread.messages)})
                continue
            thread.interrupts = [Interrupt(_value(whole.tool_calls), uuid.uuid4().hex)]
            yield ("updates", {"__interrupt__": tuple(thread.interrupts)})
            return


def _value(calls: list[dict[str, Any]]) -> Any:
    if calls[0]["name"] == "question":
        return calls[0]["args"]["text"]
    return {
        "action_requests": [{"name": one["name"], "args": one["args"]} for one in calls],
        "review_configs": [{"action_name": "delete", "allowed_decisions": ["approve", "edit", "reject"]}],
    }


def _results(thread: _Thread, resume: dict[str, Any]) -> list[ToolMessage]:
    (interrupt,) = thread.interrupts
    answer, calls = resume[interrupt.id], thread.messages[-1].tool_calls
    if isinstance(interrupt.value, str):
        return [ToolMessage(answer, tool_call_id=calls[0]["id"], name="question")]
    made = []
    for call, decision in zip(calls, answer["decisions"], strict=True):
        match decision:
            case {"type": "approve"}:
                text = f"deleted {call['args']['path']}"
            case {"type": "edit", "edited_action": action}:
                text = f"deleted {action['args']['path']}"
            case {"type": "reject"}:
                text = decision.get("message", "rejected")
            case _:
                raise ValueError(decision)
        made.append(ToolMessage(text, tool_call_id=call["id"]))
    return made


def _check(messages: list[Any]) -> None:
    """Models reject a history with an open call."""
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            open_calls.discard(message.tool_call_id)
            continue
        if open_calls:
            raise ValueError(f"no result for {open_calls}")
        open_calls = {one["id"] for one in getattr(message, "tool_calls", ())}


async def _said(messages: list[Any]) -> AsyncIterator[AIMessageChunk]:
    last = messages[-1]
    if isinstance(last, ToolMessage):
        results: list[tuple[str, str]] = []
        for message in reversed(messages):
            if not isinstance(message, ToolMessage):
                break
            results.insert(0, (message.name, message.content))
        yield AIMessageChunk(done(results))
        return
    if not isinstance(last.content, str):
        for block in last.content:
            told = (
                f"data {block['text']}"
                if block["type"] == "text"
                else f"{block['type']} {block['mime_type']}"
            )
            yield AIMessageChunk(told)
        return
    users = [one.content for one in messages if isinstance(one, HumanMessage)]
    async for said in replies(last.content, users):
        if isinstance(said, Call):
            call = {"name": said.name, "args": said.arguments, "id": uuid.uuid4().hex}
            yield AIMessageChunk("", tool_calls=[call])
        else:
            yield AIMessageChunk(said)
