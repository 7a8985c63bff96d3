#!/usr/bin/env python3
"""A stand-in for Claude Code, offline: it speaks the JSON lines of the Claude Agent SDK on stdin and stdout, and
does what the newest message says, or the messages in the variable SCRIPT, where those of the model are lists of
texts and names of tools. A program names it as `cli_path`, with a folder for the sessions in SESSIONS.
"""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from replies import Call, done, replies

Block = dict[str, Any]


class Session:
    """One process: a session, and the turn that works."""

    def __init__(self, arguments: list[str]) -> None:
        def option(name: str) -> str:
            found = [one.partition("=")[2] for one in arguments if one.startswith(f"{name}=")]
            found += [arguments[place + 1] for place, one in enumerate(arguments) if one == name]
            return found[0] if found else ""

        resumed = option("--resume")
        forks = "--fork-session" in arguments or not resumed
        self.id = option("--session-id") or (str(uuid.uuid4()) if forks else resumed)
        self.partial = "--include-partial-messages" in arguments
        self.asks = option("--permission-prompt-tool") == "stdio"
        self.structured = bool(option("--json-schema"))
        folder = Path(os.environ["SESSIONS"])
        self.path = folder / f"{self.id}.json"
        begun = folder / f"{resumed}.json"
        self.users: list[str] = json.loads(begun.read_text("utf-8")) if resumed else []
        self.turn: asyncio.Task[None] | None = None
        self.permissions: dict[str, asyncio.Future[Block]] = {}

    def say(self, kind: str, **members: Any) -> None:
        """One message."""
        told = {"type": kind, "session_id": self.id, "uuid": str(uuid.uuid4()), **members}
        sys.stdout.write(json.dumps(told) + "\n")
        # Calls of tools at once ask in one piece.
        asyncio.get_running_loop().call_soon(sys.stdout.flush)

    def take(self, message: Block) -> None:
        """A message of the SDK."""
        match message:
            case {"type": "control_request", "request_id": name, "request": {"subtype": kind}}:
                response = {"subtype": "success", "request_id": name, "response": {}}
                self.say("control_response", response=response)
                if kind == "interrupt" and self.turn is not None:
                    self.turn.cancel()
            case {"type": "control_response", "response": {"request_id": name, **response}}:
                self.permissions.pop(name).set_result(response["response"])
            case {"type": "user", "message": {"content": content}, "client_composed": True}:
                self.turn = asyncio.get_running_loop().create_task(self.answer(content))

    async def answer(self, content: list[Block]) -> None:
        """One turn."""
        tools = ["delete", "AskUserQuestion", "mcp__desk__report"]
        self.say("system", subtype="init", tools=tools, model="scripted", claude_code_version="2.1.300")
        texts = [block["text"] for block in content if block["type"] == "text"]
        self.users += texts
        self.path.write_text(json.dumps(self.users), "utf-8")
        kinds = [block["type"] for block in content]
        said = ""
        try:
            if "SCRIPT" in os.environ:
                for message in json.loads(os.environ["SCRIPT"]):
                    said = await self.model(_each(message)) or said
            elif "image" in kinds:
                media_type = content[kinds.index("image")]["source"]["media_type"]
                said = await self.model(_each([f"image {media_type}"]))
            elif not texts:
                said = await self.model(_each([f"heard {' and '.join(kinds)}"]))
            else:
                said = await self.model(replies(texts[-1], self.users))
        except asyncio.CancelledError:
            self.result("error_during_execution", is_error=True, terminal_reason="aborted_streaming")
        except RuntimeError as error:
            self.result("success", is_error=True, result=f"API Error: {error}")
            sys.stdout.flush()
            os._exit(1)
        else:
            self.result("success", result=said, structured_output={"said": said} if self.structured else None)

    async def model(self, saying: AsyncIterator[str | Call]) -> str:
        """A message of the model, its tools, and what it says about their results. The last text."""
        self.event({"type": "message_start", "message": {"id": f"msg_{uuid.uuid4().hex}"}})
        blocks: list[Block] = []
        calls = []
        scripted = "SCRIPT" in os.environ
        async for one in saying:
            if isinstance(one, Call):
                calls.append((f"toolu_{uuid.uuid4().hex}", one))
                use = {"type": "tool_use", "id": calls[-1][0], "name": _NAMES[one.name], "input": _input(one)}
                blocks.append(use)
                continue
            if scripted or not blocks:
                blocks.append({"type": "text", "text": ""})
            blocks[-1]["text"] += one
            for word in one.partition(" ") if scripted else [one]:
                delta = {"type": "text_delta", "text": word}
                self.event({"type": "content_block_delta", "index": len(blocks) - 1, "delta": delta})
        for block in blocks:
            self.message("assistant", [block])
        results = await asyncio.gather(*(self.call(*one) for one in calls))
        if results and not scripted:
            return await self.model(_each([done(results)]))
        return next((block["text"] for block in reversed(blocks) if block["type"] == "text"), "")

    def event(self, event: Block) -> None:
        if self.partial:
            self.say("stream_event", event=event, parent_tool_use_id=None)

    def message(self, kind: str, content: list[Block]) -> None:
        about = {"role": kind, "content": content, "model": "scripted"}
        self.say(kind, message=about, parent_tool_use_id=None)

    def result(self, subtype: str, *, is_error: bool = False, **members: Any) -> None:
        figures = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "total_cost_usd": 0.0}
        self.say("result", subtype=subtype, is_error=is_error, **figures, **members)

    async def call(self, tool_use_id: str, call: Call) -> tuple[str, str]:
        """Runs a tool, with a permission if it needs one. Its name, and its result as text."""
        arguments, content, text = _input(call), None, "written"
        if call.name in ("delete", "question"):
            decided = await self.permission(tool_use_id, _NAMES[call.name], arguments)
            if decided["behavior"] == "deny":
                text = decided["message"]
                if decided.get("interrupt"):
                    raise asyncio.CancelledError
            elif call.name == "delete":
                text = f"deleted {decided['updatedInput']['path']}"
            else:
                text = next(iter(decided["updatedInput"]["answers"].values()))
        else:
            source = {"type": "text", "media_type": "text/plain", "data": "a,b\n"}
            content = [{"type": "document", "source": source, "title": "table.csv"}]
        self.message(
            "user", [{"type": "tool_result", "tool_use_id": tool_use_id, "content": content or text}]
        )
        return call.name, text

    async def permission(self, tool_use_id: str, name: str, arguments: Block) -> Block:
        if not self.asks:
            return {"behavior": "deny", "message": "no permission"}
        request_id = str(uuid.uuid4())
        self.permissions[request_id] = asyncio.get_running_loop().create_future()
        request = {"subtype": "can_use_tool", "tool_name": name, "input": arguments}
        self.say("control_request", request_id=request_id, request={**request, "tool_use_id": tool_use_id})
        return await self.permissions[request_id]


#: the tools by the names of the script
_NAMES = {"delete": "delete", "question": "AskUserQuestion", "report": "mcp__desk__report"}


async def _each(said: list[str]) -> AsyncIterator[str | Call]:
    """The texts and calls of a message. Raises RuntimeError for the text that fails."""
    for one in said:
        if one == "fail":
            raise RuntimeError("a secret of the framework")
        yield Call(one, {"path": "x"}) if one in _NAMES else one


def _input(call: Call) -> Block:
    if call.name != "question":
        return call.arguments
    options = [{"label": "red", "description": "like fire"}, {"label": "blue", "description": "like water"}]
    asked = {"question": call.arguments["text"], "header": "Colour", "options": options, "multiSelect": False}
    return {"questions": [asked]}


async def main() -> None:
    session = Session(sys.argv[1:])
    reader = asyncio.StreamReader(limit=2**26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        session.take(json.loads(line))
    if session.turn is not None:
        await session.turn


if __name__ == "__main__":
    asyncio.run(main())
