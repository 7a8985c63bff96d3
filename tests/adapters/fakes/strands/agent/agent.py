import copy
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.frameworks.adapted.replies import Call, done, replies

Block = dict[str, Any]
NUMBERS = itertools.count(1)


@dataclass
class Snapshot:
    data: Block


@dataclass
class AgentResult:
    stop_reason: str
    message: Block
    structured_output: Any = None

    def __str__(self) -> str:
        return "".join(f"{block['text']}\n" for block in self.message["content"] if "text" in block)


@dataclass(frozen=True)
class Stage:
    name: str


@dataclass(eq=False)
class Agent:
    """outputs: the texts of the result by what the model has said; a value that is no text is structured."""

    name: str = "scripted"
    description: str | None = None
    system_prompt: Any = None
    outputs: Block = field(default_factory=dict)
    callbacks: list[Any] = field(default_factory=list)
    session: Any = None
    #: what goes wrong after the answer of the caller, and where
    fails: str = ""
    states: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.messages: list[Block] = []
        self.interrupts: dict[str, Block] = {}
        self.done: list[Block] = []
        self.running = False
        self._session_manager = self.session
        handlers: dict[Stage, list[Any]] = {}
        self._middleware_registry = SimpleNamespace(_handlers=handlers)
        self.model = SimpleNamespace(config={})
        self.hooks = SimpleNamespace(get_callbacks_for=lambda event: iter(self.callbacks))
        specs = {"delete": {"name": "delete", "description": "Deletes a file."}}
        self.tool_registry = SimpleNamespace(get_all_tools_config=lambda: specs)

    def take_snapshot(self, *, preset: str) -> Snapshot:
        assert preset == "session"
        pending = {"completed_tool_results": self.done}
        state = {"interrupts": self.interrupts, "context": {}, "activated": bool(self.interrupts)}
        data = {"messages": self.messages, "interrupt_state": {**state, "pending_tool_execution": pending}}
        return Snapshot(copy.deepcopy(data))

    def load_snapshot(self, snapshot: Snapshot) -> None:
        assert not self.running, "the turn of another conversation runs"
        data = copy.deepcopy(snapshot.data)
        self.messages, self.interrupts = data["messages"], data["interrupt_state"]["interrupts"]
        self.done = (
            data["interrupt_state"].get("pending_tool_execution", {}).get("completed_tool_results", [])
        )

    async def stream_async(self, prompt: Any, *, invocation_state: Any) -> AsyncIterator[Block]:
        assert not self.running, "ConcurrencyException"
        self.running = True
        self.states.append(invocation_state)
        try:
            async for event in self._turn(prompt):
                yield event
        finally:
            self.running = False

    async def _turn(self, prompt: Any) -> AsyncIterator[Block]:
        if self.interrupts:
            for one in prompt:
                answer = one["interruptResponse"]
                self.interrupts[answer["interruptId"]]["response"] = answer["response"]
            if self.fails == "before the tools":
                raise RuntimeError("a secret of the framework")
            yield self._results()
            if self.fails == "after the tools":
                raise RuntimeError("a secret of the framework")
        else:
            content = [{"text": prompt}] if isinstance(prompt, str) else prompt
            self.messages.append({"role": "user", "content": content})
        while True:
            content = []
            yield {"event": {"messageStart": {"role": "assistant"}}}
            async for said in self._said():
                if isinstance(said, str):
                    yield {"data": said, "delta": {"text": said}}
                    if content and "text" in content[-1]:
                        content[-1]["text"] += said
                    else:
                        content.append({"text": said})
                else:
                    use = {"toolUseId": f"use-{next(NUMBERS)}", "name": said.name, "input": said.arguments}
                    content.append({"toolUse": use})
            text = "".join(block.get("text", "") for block in content)
            found = self.outputs.get(text, text)
            if isinstance(found, list):
                content = [{"text": one} for one in found]
            message = {"role": "assistant", "content": content}
            self.messages.append(message)
            yield {"message": message}
            uses = [block["toolUse"] for block in content if "toolUse" in block]
            if not uses:
                structured = None if isinstance(found, str | list) else found
                yield {"result": AgentResult("end_turn", message, structured)}
                return
            for use in uses:
                self._call(use)
            if self.interrupts:
                yield {"result": AgentResult("interrupt", message)}
                return
            yield self._results()

    def _call(self, use: Block) -> None:
        kind = {"delete": "before_tool_call", "question": "tool_call"}.get(use["name"])
        if kind is None:
            document = {"format": "csv", "name": "table", "source": {"bytes": b"a,b\n"}}
            self.done.append(
                {"toolUseId": use["toolUseId"], "content": [{"text": "written"}, {"document": document}]}
            )
            return
        name = f"v1:{kind}:{use['toolUseId']}:1"
        reason = None if kind == "before_tool_call" else use["input"]["text"]
        self.interrupts[name] = {"id": name, "name": "approval", "reason": reason, "response": None}

    def _results(self) -> Block:
        """The message with the results of the newest calls, once all interrupts are answered."""
        for name, one in self.interrupts.items():
            use_id, answer = name.split(":")[2], one["response"]
            text = str(answer)
            if "before_tool_call" in name:
                (use,) = (each["toolUse"] for each in self.messages[-1]["content"] if use_id in str(each))
                text = f"deleted {use['input']['path']}" if answer == "y" else "denied"
            self.done.append({"toolUseId": use_id, "content": [{"text": text}]})
        message = {"role": "user", "content": [{"toolResult": one} for one in self.done]}
        self.messages.append(message)
        self.interrupts, self.done = {}, []
        return {"message": message}

    async def _said(self) -> AsyncIterator[str | Call]:
        blocks = [block for message in self.messages for block in message["content"]]
        names = {one["toolUse"]["toolUseId"]: one["toolUse"]["name"] for one in blocks if "toolUse" in one}
        results = {one["toolResult"]["toolUseId"] for one in blocks if "toolResult" in one}
        assert names.keys() == results, f"no result for {names.keys() - results}"
        newest = self.messages[-1]["content"]
        if "toolResult" in newest[0]:
            told = [one["toolResult"] for one in newest]
            yield done((names[one["toolUseId"]], one["content"][0]["text"]) for one in told)
            return
        if "image" in newest[0]:
            yield f"image image/{newest[0]['image']['format']}"
            return
        users = [
            block["text"]
            for message in self.messages
            if message["role"] == "user"
            for block in message["content"]
            if "text" in block
        ]
        async for said in replies(users[-1], users):
            yield said
