"""Content of a 0.3 message that 1.0 has no field for, there and back again, as JSON text without a client
library.

The message goes to the gateway over JSON-RPC 0.3, and from there over gRPC 1.0 to an agent of the official
SDK, which keeps it in the history of its task. GetTask returns it over the same two hops.
docs/explanation/versions.md has the rules.
"""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from demo_clients import Rejected

#: the placeholders are the ids that the agent gave the task and its context
MESSAGE = """{
  "kind": "message", "messageId": "m-2", "role": "user", "taskId": "<task>", "contextId": "<context>",
  "mood": "curious", "metadata": {}, "extensions": [],
  "parts": [
    {"kind": "text", "text": "the end", "metadata": {}, "lang": "en"},
    {"kind": "data", "data": {"whole": 1, "float": 0.5, "long": 9007199254740993}},
    {"kind": "file", "file": {"name": "hi.txt", "bytes": "aGk="}}
  ]
}"""
ODDITIES = {
    "an unknown member": ("mood",),
    "an unknown member of a part": ("parts", 0, "lang"),
    "an empty object": ("metadata",),
    "an empty list": ("extensions",),
    "the bytes of a file": ("parts", 2, "file", "bytes"),
    "a whole number": ("parts", 1, "data", "whole"),
    "a fraction": ("parts", 1, "data", "float"),
    "an integer that no double holds": ("parts", 1, "data", "long"),
}
_NUMBER = "number "


async def there_and_back(gateway: str) -> tuple[Any, Any]:
    """The message as it was sent and as it came back; see `read`."""
    async with httpx.AsyncClient(timeout=300) as http:

        async def ask(method: str, params: str) -> Any:
            body = f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}'
            response = await http.post(gateway, content=body, headers={"Content-Type": "application/json"})
            answer = read(response.text)
            if "result" not in answer:
                raise Rejected(f"{method}: {written(answer)}")
            return answer["result"]

        parts = '[{"kind": "text", "text": "ask me"}]'
        first = f'{{"kind": "message", "messageId": "m-1", "role": "user", "parts": {parts}}}'
        task = await ask("message/send", f'{{"message": {first}}}')
        sent = MESSAGE.replace("<task>", task["id"]).replace("<context>", task["contextId"])
        await ask("message/send", f'{{"message": {sent}}}')
        history = (await ask("tasks/get", f'{{"id": "{task["id"]}"}}'))["history"]
    return read(sent), next((one for one in history if one["messageId"] == "m-2"), None)


def read(text: str) -> Any:
    """JSON with numbers as text, so that no digit is rounded."""
    return json.loads(text, parse_int=_number, parse_float=_number)


def written(tree: Any) -> str:
    """The result of `read` as JSON text."""
    return re.sub(f'"{_NUMBER}([^"]*)"', r"\1", json.dumps(tree))


def at(tree: Any, path: tuple[str | int, ...]) -> str:
    """The value at a path as JSON, or a text for an absent one."""
    for step in path:
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            return "nothing"
    return written(tree)


def _number(token: str) -> str:
    return _NUMBER + token
