import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any, Self

from claude_agent_sdk.types import (
    AssistantMessage,
    ClaudeAgentOptions,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from tests.frameworks.adapted.replies import Call, done, replies

NUMBERS = itertools.count(1)
NAMES = {"delete": "delete", "question": "AskUserQuestion", "report": "mcp__desk__report"}
DOCUMENT = {"type": "document", "title": "table.csv", "source": {"type": "text", "data": "a,b\n"}}


class ClaudeSDKClient:
    def __init__(self, options: ClaudeAgentOptions) -> None:
        self.options = options
        options.log.append(options)
        if options.resume:
            assert options.resume in options.sessions, f"No conversation found with {options.resume}"
        self.id = options.resume if options.resume and not options.fork_session else f"s{next(NUMBERS)}"
        self.users = options.sessions.setdefault(self.id, [*options.sessions.get(options.resume or "", [])])
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.turn: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.turn is not None:
            self.turn.cancel()
            await asyncio.wait([self.turn])

    async def query(self, prompt: AsyncIterator[Any]) -> None:
        async for message in prompt:
            assert message["client_composed"] is True
            self.turn = asyncio.create_task(self._turn(message["message"]["content"]))

    async def interrupt(self) -> None:
        self.options.log.append("interrupt")
        assert self.turn is not None
        self.turn.cancel()

    async def receive_response(self) -> AsyncIterator[Any]:
        while True:
            message = await self.messages.get()
            if message is None:
                return
            yield message
            if isinstance(message, ResultMessage):
                return

    async def _turn(self, content: list[Any]) -> None:
        tell = self.messages.put_nowait
        try:
            texts = [block["text"] for block in content if block["type"] == "text"]
            self.users += texts
            images = [block["source"]["media_type"] for block in content if block["type"] == "image"]
            text = f"image {images[0]}" if images else ""
            calls = []
            tell(StreamEvent({"type": "message_start", "message": {"id": f"m{next(NUMBERS)}"}}, self.id))
            async for said in replies(texts[-1], self.users) if texts else _none():
                if isinstance(said, Call):
                    calls.append((f"toolu_{next(NUMBERS)}", said))
                    use = ToolUseBlock(calls[-1][0], NAMES[said.name], said.arguments)
                    tell(AssistantMessage([use], self.id))
                else:
                    text += said
                    delta = {"type": "text_delta", "text": said}
                    tell(StreamEvent({"type": "content_block_delta", "index": 0, "delta": delta}, self.id))
                    await asyncio.sleep(0)
            if results := await asyncio.gather(*(self._call(*one) for one in calls)):
                text = done(results)
            found = self.options.outputs.get(text, text)
            if found is None:
                tell(None)
            elif isinstance(found, str):
                tell(ResultMessage(self.id, result=found))
            else:
                tell(ResultMessage(self.id, structured_output=found))
        except asyncio.CancelledError:
            tell(ResultMessage(self.id, "error_during_execution", is_error=True))
        except RuntimeError as error:
            tell(ResultMessage(self.id, is_error=True, result=f"API Error: {error}"))

    async def _call(self, tool_use_id: str, call: Call) -> tuple[str, Any]:
        result, content = "written", None
        if call.name == "report":
            content = [DOCUMENT]
        else:
            arguments = dict(call.arguments)
            if call.name == "question":
                arguments = {"questions": [{"question": arguments["text"], "options": []}]}
            context = ToolPermissionContext(tool_use_id)
            decided = await self.options.can_use_tool(NAMES[call.name], arguments, context)
            if isinstance(decided, PermissionResultDeny):
                result = decided.message
                if decided.interrupt:
                    raise asyncio.CancelledError
            elif call.name == "question":
                result = decided.updated_input["answers"]["which colour?"]
            else:
                result = f"deleted {(decided.updated_input or arguments)['path']}"
        self.messages.put_nowait(UserMessage([ToolResultBlock(tool_use_id, content or result)]))
        return call.name, result


async def _none() -> AsyncIterator[str]:
    for text in ():
        yield text
