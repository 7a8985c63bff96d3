"""What a program of the grid does with its client, and how it tells the answers: one line of JSON for each feature.

It is imported by the programs beside it, in environments without this project.
"""

import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

URL = sys.argv[1]
KEY = "none"
TOOL = "ask_desk"
SCHEMA = {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}}
FUNCTION = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
}

Messages = list[dict[str, str]]


async def told(feature: str, work: Callable[[], Awaitable[Any]]) -> None:
    try:
        answer = str(await work())
    except Exception as error:  # noqa: BLE001  it is a row of a grid
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps([feature, answer[:2000]]), flush=True)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def mcp(names: Callable[[], Awaitable[Any]], call: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
    """names: the names of the tools. call: the result of the tool as text."""

    async def conversation() -> Any:
        said = str(await call({"message": "turn"}))
        found = re.search(r"conversation=([0-9a-f]{32})", said)  # a client without a session is told
        return await call({"message": "turn", **({"conversation": found[1]} if found else {})})

    async def question() -> Any:
        asked = str(await call({"message": "ask"}))
        found = re.search(r"task=([\w-]+)", asked)
        return await call({"message": "red", "task": found[1]}) if found else asked

    await told("tools", names)
    await told("call", lambda: call({"message": "hello"}))
    await told("data", lambda: call({"message": "data"}))
    await told("arguments", lambda: call({"message": "hello", "data": None, "toolCallId": "x"}))
    await told("conversation", conversation)
    await told("question", question)
    await told("failure", lambda: call({"message": "fail"}))


async def chats(
    ask: Callable[[Messages], Awaitable[Any]],
    stream: Callable[[Messages], Awaitable[Any]],
    structured: Callable[[str], Awaitable[Any]],
    tools: Callable[[str], Awaitable[Any]],
) -> None:
    """ask, stream: the text of an answer to messages. structured: the answer with a schema. tools: that of a
    request with a tool.
    """

    async def conversation() -> Any:
        said = await ask([user("turn")])
        return await ask([user("turn"), {"role": "assistant", "content": said}, user("turn")])

    await told("chat", lambda: ask([user("hello")]))
    await told("stream", lambda: stream([user("hello")]))
    await told("conversation", conversation)
    await told("structured", lambda: structured("data"))
    await told("failure", lambda: ask([user("fail")]))
    await told("tools", lambda: tools("hello"))
