"""A stand-in for openai-agents 0.24: an agent with tools, whose model does what the newest message says.

It has the interface that the adapter uses, and its rules: a run is a task with a queue of events, the caller
keeps the history, each call needs a result before the next model. `make frameworks` has the real package.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.frameworks.adapted.replies import Call, done, replies

Item = dict[str, Any]
NUMBERS = itertools.count(1)
#: set once a tool may end, and the tasks that tools have begun
CLEAN = asyncio.Event()
KEPT: set[asyncio.Task[Any]] = set()


class InputGuardrailTripwireTriggered(Exception): ...  # noqa: N818  the name of the SDK


class OutputGuardrailTripwireTriggered(Exception): ...  # noqa: N818  the name of the SDK


class AgentOutputSchemaBase:
    def is_plain_text(self) -> bool:
        return False


class RunConfig:
    output_guardrails: tuple[Any, ...] = ()


@dataclass
class RawResponsesStreamEvent:
    data: Any


@dataclass
class RunItemStreamEvent:
    item: Any


@dataclass
class AgentUpdatedStreamEvent:
    new_agent: Any


@dataclass
class MessageOutputItem:
    text: str


@dataclass
class ToolCallItem:
    raw_item: Any


@dataclass
class ToolCallOutputItem:
    output: Any
    raw_item: Any = None

    def to_input_item(self) -> Item:
        return dict(self.raw_item)


@dataclass
class ToolApprovalItem:
    call: Item

    @property
    def call_id(self) -> str:
        return str(self.call["call_id"])

    @property
    def name(self) -> str:
        return str(self.call["name"])

    @property
    def arguments(self) -> str:
        return str(self.call["arguments"])


class ToolOutputFileContent:
    def model_dump(self) -> Item:
        return {"type": "file", "file_data": "YSxiCg==", "file_url": None, "filename": "table.csv"}


class Agent:
    __module__ = "agents.agent"

    def __init__(self, name: str = "scripted", *, output_type: Any = None, outputs: Any = None) -> None:
        self.name, self.output_type, self.outputs = name, output_type, outputs or {}
        self.handoff_description: str | None = None
        self.handoffs: list[Agent] = []
        #: names of guardrails: an output guardrail trips at each text, unless its name is "passes"
        self.output_guardrails: list[str] = []
        self.input_guardrails: list[str] = []
        self.streams = True
        self.contexts: list[Any] = []


class RunState:
    def __init__(self, items: list[Item], calls: list[Item]) -> None:
        self.items, self.calls = items, calls
        self.results: dict[str, str] = {}

    def get_interruptions(self) -> list[ToolApprovalItem]:
        return [ToolApprovalItem(one) for one in self.calls]

    def approve(self, item: ToolApprovalItem) -> None:
        assert item.call in self.calls, "another invocation"
        self.results[item.call_id] = f"deleted {json.loads(item.arguments)['path']}"

    def reject(self, item: ToolApprovalItem, *, rejection_message: str | None = None) -> None:
        assert item.call in self.calls, "another invocation"
        self.results[item.call_id] = rejection_message or "Tool execution was not approved."


@dataclass
class RunResultStreaming:
    """A run. events: None ends them, and an exception is raised."""

    last_agent: Agent
    items: list[Item]
    final_output: Any = None
    new_items: list[Any] = field(default_factory=list)
    interruptions: list[ToolApprovalItem] = field(default_factory=list)
    input_guardrail_results: list[str] = field(default_factory=list)
    events: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    run_loop_task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        assert self.run_loop_task is not None
        self.run_loop_task.cancel()

    async def stream_events(self) -> AsyncIterator[Any]:
        while (event := await self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    def to_input_list(self) -> list[Item]:
        return list(self.items)

    def to_state(self) -> RunState:
        return RunState(list(self.items), [one.call for one in self.interruptions])

    async def loop(self) -> None:
        try:
            await self._turns()
        except Exception as error:  # noqa: BLE001  the reader of the events raises it
            self.events.put_nowait(error)
        else:
            self.events.put_nowait(None)

    def add(self, made: Any) -> None:
        self.new_items.append(made)
        self.events.put_nowait(RunItemStreamEvent(made))

    async def _turns(self) -> None:
        self.events.put_nowait(AgentUpdatedStreamEvent(self.last_agent))
        while True:
            results = {one["call_id"] for one in self.items if one.get("type") == "function_call_output"}
            calls = {one["call_id"] for one in self.items if one.get("type") == "function_call"}
            assert calls == results, f"no result for {calls - results}"
            text, open_calls = "", []
            async for said in said_of(self.items):
                if isinstance(said, str):
                    text += said
                    if self.last_agent.streams:
                        delta = SimpleNamespace(type="response.output_text.delta", delta=said, output_index=0)
                        self.events.put_nowait(RawResponsesStreamEvent(delta))
                        self.input_guardrail_results = list(self.last_agent.input_guardrails)
                else:
                    open_calls.append(said)
            self.events.put_nowait(RawResponsesStreamEvent(SimpleNamespace(type="response.completed")))
            if text:
                self.items.append({"role": "assistant", "content": text})
                self.add(MessageOutputItem(text))
            self.items += open_calls
            if not open_calls:
                if set(self.last_agent.output_guardrails) - {"passes"}:
                    raise OutputGuardrailTripwireTriggered(text)
                self.final_output = self.last_agent.outputs.get(text, text)
                return
            name = open_calls[0]["name"]
            if name == "transfer":
                self.last_agent = self.last_agent.handoffs[0]
                self.events.put_nowait(AgentUpdatedStreamEvent(self.last_agent))
                self._result(open_calls[0], "transferred")
            elif name == "draw":
                picture = SimpleNamespace(type="image_generation_call", result="iVBORw==")
                self.add(ToolCallItem(picture))
                self._result(open_calls[0], "drawn")
            elif name in ("report", "stop"):
                made: Any = [ToolOutputFileContent()] if name == "report" else "stopped"
                self.add(ToolCallOutputItem(made, self._result(open_calls[0], "written")))
                if name == "stop":
                    self.final_output = made
                    return
            else:
                self.interruptions = [ToolApprovalItem(one) for one in open_calls]
                return

    def _result(self, call: Item, output: str) -> Item:
        made = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
        self.items.append(made)
        return made


class Runner:
    @staticmethod
    def run_streamed(
        agent: Agent, given: Any, *, context: Any, run_config: Any, max_turns: int = 10
    ) -> RunResultStreaming:
        agent.contexts.append((context, run_config, max_turns))
        made = RunResultStreaming(agent, [])
        if isinstance(given, RunState):
            made.items = list(given.items)
            for call in given.calls:
                output = given.results[call["call_id"]]
                made.new_items.append(ToolCallOutputItem(output, made._result(call, output)))
        else:
            made.items = list(given)
        made.run_loop_task = asyncio.create_task(made.loop())
        return made


def call(name: str, **arguments: Any) -> Item:
    call_id = f"call-{next(NUMBERS)}"
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}


async def _tool() -> None:
    """A tool that takes its time to clean up, and has begun a task that outlives it."""
    KEPT.add(asyncio.create_task(asyncio.Event().wait()))
    try:
        await asyncio.Event().wait()
    finally:
        await CLEAN.wait()


async def said_of(items: list[Item]) -> AsyncIterator[Any]:
    """What a model says: texts and calls."""
    last = items[-1]
    if last.get("type") == "function_call_output":
        names = {one["call_id"]: one["name"] for one in items if one.get("type") == "function_call"}
        results: list[tuple[str, str]] = []
        for one in reversed(items):
            if one.get("type") != "function_call_output":
                break
            results.insert(0, (names[one["call_id"]], one["output"]))
        yield done(results)
        return
    if not isinstance(last["content"], str):
        for block in last["content"]:
            place = block.get("image_url", "")
            yield f"image {place[5:].partition(';')[0]}" if place else json.dumps(block)
        return
    match last["content"]:
        case "tool":
            yield "begun"
            tool = asyncio.create_task(_tool())
            try:
                await asyncio.shield(tool)
            except asyncio.CancelledError:
                tool.cancel()  # as the SDK does: it does not wait for the end of the tool
                raise
        case "guarded":
            raise InputGuardrailTripwireTriggered("a secret of the framework")
        case "think and stop":
            yield "stopped"
            yield call("stop")
        case "transfer" | "draw" as name:
            yield call(name)
        case text:
            users = [str(one["content"]) for one in items if one.get("role") == "user"]
            async for said in replies(text, users):
                yield call(said.name, **said.arguments) if isinstance(said, Call) else said
