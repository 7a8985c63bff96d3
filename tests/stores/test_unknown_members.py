"""Unknown members of JSON in tasks that another process has stored."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.codec import decoder, encoder
from a2a_bridge.codec.unknown import KEPT
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.operations import GET_TASK, SEND_MESSAGE
from a2a_bridge.hosting import Agent, Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores import open_store
from tests.hosting.test_turns import Busy

SENT: dict[str, Any] = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "later": [1]}
}


async def _send(url: str) -> str:
    request = decoder(hub.SendMessageRequest, keeps=True)(SENT)
    async with open_store(url) as store:
        engine = Engine(Agent(Busy(0), name="busy", description=""), store=store)
        await engine.start()
        answer = await engine.service.unary(Call(SEND_MESSAGE, request, CallContext()))
        await engine.close()
    return answer.task.id


async def test_a_stored_task_still_has_its_unknown_members(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await _send(sqlite_url)
    monkeypatch.setattr(KEPT, "count", 0)  # as in a new process
    async with open_store(sqlite_url) as store:
        engine = Engine(Agent(Busy(0), name="busy", description=""), store=store)
        await engine.start()
        task = await engine.service.unary(Call(GET_TASK, hub.GetTaskRequest(id=task_id), CallContext()))
        await engine.close()
    tree = encoder(hub.Task, keeps=True)(task)
    assert tree["history"][0]["later"] == [1]


def test_tasks_in_memory_come_from_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEPT, "count", 0)
    Engine(Agent(Busy(0), name="busy", description=""))
    assert KEPT.count == 0
