"""How long the names may be that callers give. Databases index them, and cannot in any length."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_bridge import Reason
from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.core.option_classes import EngineOptions
from a2a_bridge.hosting import Event, Run
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.limits.scene import agent, peers, rejected, served

#: the longest characters, in an order that no index can make shorter
LONGEST = "".join(random.Random(7).choices([chr(0x1F300 + number) for number in range(512)], k=512))


class Quick:
    async def execute(self, run: Run) -> AsyncIterator[Event]:
        yield run.start()
        yield run.status("completed")


def asking(*, tenant: str = "", **names: Any) -> hub.SendMessageRequest:
    message = hub.Message(role=hub.ROLE_USER, parts=[hub.Part(text="x")], **names)
    return hub.SendMessageRequest(message=message, tenant=tenant)


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_names_have_so_many_characters(store: str, request: pytest.FixtureRequest) -> None:
    url = "memory://" if store == "memory" else str(request.getfixturevalue(f"{store}_url"))
    options = ServeOptions(store=url, engine=EngineOptions(idempotent_sends=True))
    fine = asking(message_id=LONGEST, context_id=LONGEST)
    async with served(agent(Quick()), options) as server, peers(server) as callers:
        for field, asked in (
            ("message.messageId", asking(message_id=LONGEST + "x")),
            ("message.contextId", asking(message_id="m", context_id=LONGEST + "x")),
            ("tenant", asking(message_id="m", tenant="t" * 257)),
        ):
            error = await rejected(callers, lambda peer, asked=asked: peer.send_message(asked))  # type: ignore[misc]
            assert error.reason is Reason.INVALID_PARAMS
            assert [one.field for one in error.violations] == [field]
        answers = [await peer.send_message(fine) for peer in callers.values()]
        assert {answer.task.context_id for answer in answers} == {LONGEST}
        assert len({answer.task.id for answer in answers}) == 1
