"""Messages whose ids are reserved, while other replicas may take them over and while the engine closes."""

import asyncio
from typing import Any

import pytest

from a2a_bridge.core.errors import Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.ports import Scope
from tests.agents import EchoAgent, ScriptedAgent
from tests.hosting.late import LateStore
from tests.hosting.scene import Gate, agent_of, shapes
from tests.hosting.test_idempotency import Counting, Talk, settled
from tests.rejections import rejected


@pytest.mark.parametrize("answer", ["ask", "done"])
async def test_a_message_in_the_history_of_its_task_is_a_repetition(answer: str) -> None:
    """Its id was deleted: by another replica that took it over from the former name of this one."""
    counting = Counting(held=False)
    talk = Talk(agent_of(counting.execute))
    task = await talk.send("ask")
    again = {"task_id": task.id, "message_id": "m-2"}
    first = await talk.send(answer, **again)
    await talk.rest()
    await settled()  # a copy that comes earlier waits with the first one
    for _ in range(2):
        await talk.store.sends.forget(Scope(), "m-2")
        assert await talk.send(answer, **again, context_id=task.context_id) == first
    streamed = await talk.stream(answer, **again, context_id=task.context_id)
    assert shapes(streamed) == [("task", first.status.state)]
    await talk.store.sends.forget(Scope(), "m-2")
    with rejected(Reason.INVALID_PARAMS, "message.messageId"):
        await talk.send("other content", **again)
    assert await talk.send(answer, **again) == first
    assert counting.runs == ["ask", answer]


async def test_another_message_to_a_task_that_has_ended_is_rejected() -> None:
    talk = Talk(ScriptedAgent())
    task = await talk.send("task")
    with rejected(Reason.UNSUPPORTED_OPERATION):
        await talk.send("x", task_id=task.id, message_id="m-2")


class Alone:
    """Implements Remote: there is no other replica."""

    def replica(self, holder: str, /) -> Any:
        raise AssertionError(holder)

    async def stop(self) -> None:
        """There is nothing to end."""


async def test_a_lease_may_be_lost_while_a_push_config_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    store, gate = LateStore(), Gate()
    store.remote = Alone()  # type: ignore[assignment]
    talk = Talk(ScriptedAgent(), store=store)

    async def put(*_: Any) -> None:
        await gate.wait()

    monkeypatch.setattr(store.push_configs, "put", put)
    inline = hub.SendMessageConfiguration(task_push_notification_config={"url": "https://hook.example/"})
    sending = asyncio.create_task(talk.send("task x", configuration=inline))
    await gate.reached()
    store.writers[-1].lose()
    with rejected(Reason.UNAVAILABLE):
        await sending
    await talk.rest()


async def test_a_direct_answer_that_is_not_stored_when_the_engine_closes_is_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk, gate = Talk(EchoAgent(), patience=0.01), Gate()

    async def store_response(*_: Any) -> None:
        await gate.wait()

    monkeypatch.setattr(talk.store.sends, "store_response", store_response)
    sending = asyncio.create_task(talk.send("hello"))
    await gate.reached()
    await talk.close()
    with rejected(Reason.UNAVAILABLE):
        await sending
