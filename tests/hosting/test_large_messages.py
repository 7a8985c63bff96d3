"""What a large message costs the event loop: no look at each of its members, and few passes in C."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_bridge import serve
from a2a_bridge.app.planning import ServeOptions
from a2a_bridge.hosting import Agent, Run
from tests.patience import PATIENCE

#: members of the metadata, about 1 MB, and bytes from which a message counts as large
MEMBERS, LARGE = 60_000, 500_000
#: how often a message may be walked through on the loop: written, parsed from bytes, and copied
WRITTEN, PARSED, COPIED = 7, 2, 0
_WALKS = {
    "SerializeToString",
    "MergeFromString",
    "CopyFrom",
    "MergeFrom",
    "ByteSize",
    "FromString",
    "ListFields",
}


class Echo:
    async def execute(self, run: Run) -> Any:
        yield run.status("working")
        yield run.artifact("done")
        yield run.status("completed")


class Walks:
    """Counts in the thread of the loop: calls of Python and C, and those that walk through a large message."""

    def __init__(self) -> None:
        self.calls = 0
        self.large: Counter[str] = Counter()

    def __call__(self, _frame: Any, what: str, function: Any) -> None:
        self.calls += what in ("call", "c_call")
        if what == "c_return" and function.__name__ in _WALKS:
            sys.setprofile(None)
            try:
                message = function.__self__
                if not isinstance(message, type) and message.ByteSize() > LARGE:
                    self.large[function.__name__] += 1
            finally:
                sys.setprofile(self)


def _request(version: str) -> bytes:
    parts = [{"text": "hi"} if version == "1.0" else {"kind": "text", "text": "hi"}]
    message = {"messageId": "m", "role": "ROLE_USER" if version == "1.0" else "user", "parts": parts}
    message["metadata"] = {f"k{number:05}": number for number in range(MEMBERS)}
    if version != "1.0":
        message["kind"] = "message"
    method = "SendMessage" if version == "1.0" else "message/send"
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}).encode()


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_large_message_is_not_walked_through_again_and_again(
    version: str, store: str, tmp_path: Path
) -> None:
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path / 'tasks.db'}"
    body = _request(version)
    headers = {"A2A-Version": version, "Content-Type": "application/json"}
    agent = Agent(Echo(), name="echo", description="d")

    def call() -> httpx.Response:
        with httpx.Client(timeout=PATIENCE) as client:
            return client.post(f"http://{server.http}", content=body, headers=headers)

    async with serve(agent, options=ServeOptions(store=url)) as server:
        walks = Walks()
        sys.setprofile(walks)
        try:
            answer = await asyncio.to_thread(call)
        finally:
            sys.setprofile(None)
    assert answer.status_code == 200
    task = answer.json()["result"]
    task = task.get("task", task)
    assert len(task["history"][0]["metadata"]) == MEMBERS
    assert walks.large["CopyFrom"] + walks.large["MergeFrom"] <= COPIED
    assert walks.large["MergeFromString"] <= PARSED
    assert walks.large["SerializeToString"] <= WRITTEN
    assert walks.large["ByteSize"] + walks.large["ListFields"] == 0
    assert walks.calls < MEMBERS / 10
    # Otherwise nothing was counted.
    assert walks.large["SerializeToString"] > 0
