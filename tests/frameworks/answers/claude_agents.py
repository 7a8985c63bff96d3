"""Shapes of turns of the Claude Agent SDK: messages, tools, structured output, errors."""

import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, ToolResultBlock, UserMessage, query
from comparing import Answer, Shape, main

HERE = Path(__file__).parent
SESSIONS = tempfile.TemporaryDirectory()

#: the messages of the model: texts, and the names of tools of adapted/claude_code.py
SCRIPTS: dict[str, Sequence[Sequence[str]]] = {
    "a message": [["sunny in Oslo"]],
    "two blocks": [["first one", "and another"]],
    "two messages": [["let me see"], ["it is sunny"]],
    "the same twice": [["it is sunny"], ["it is sunny"]],
    "no text": [[""]],
    "a longer message": [["it is"], ["it is sunny"]],
    "a message and a tool": [["let me see", "report"], ["it is sunny"]],
    "two tools": [["report", "report"], ["seen both", "report"], ["all is well"]],
    "a tool that is denied": [["let me see", "delete"], ["it was denied"]],
    "a tool at the end": [["let me see"], ["report"]],
    "an error at once": [["fail"]],
}


def options(script: Sequence[Sequence[str]], **more: Any) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(
        cli_path=HERE.parent / "adapted" / "claude_code.py",
        env={"SESSIONS": SESSIONS.name, "SCRIPT": json.dumps(script)},
        setting_sources=[],
        # A decision of its own, as in the plain call, which asks nobody.
        permission_prompt_tool_name="mcp__desk__decide",
        **more,
    )


async def prompt() -> AsyncIterator[dict[str, Any]]:
    message = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    yield {"type": "user", "message": message, "client_composed": True}


async def plain(given: ClaudeAgentOptions) -> Answer:
    files: list[bytes] = []
    text: Any = None
    async for message in query(prompt=prompt(), options=given):
        if isinstance(message, UserMessage):
            for block in message.content:
                if isinstance(block, ToolResultBlock) and isinstance(block.content, list):
                    files += [one["source"]["data"].encode() for one in block.content]
        if isinstance(message, ResultMessage):
            if message.is_error:
                raise RuntimeError(message.subtype)
            text = message.result if message.structured_output is None else ""
    return Answer(text, tuple(files))


def shapes() -> Iterator[tuple[str, Shape]]:
    for name, script in SCRIPTS.items():
        yield name, Shape(partial(options, script), plain)
    form = {"type": "json_schema", "schema": {"type": "object"}}
    for name in ("a message", "a message and a tool"):
        yield f"{name}, structured", Shape(partial(options, SCRIPTS[name], output_format=form), plain)


if __name__ == "__main__":
    main(dict(shapes()))
