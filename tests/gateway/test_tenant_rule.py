"""The tenant of an agent's interface."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_TASK, SUBSCRIBE_TO_TASK
from a2a_bridge.core.service import Event, Events
from a2a_bridge.gateway.connections import TenantRule
from a2a_bridge.pb import lf_a2a_v1 as hub


class Recorder:
    def __init__(self) -> None:
        self.calls: list[Call[Any, Any]] = []

    async def unary(self, call: Call[Any, Any], /) -> Any:
        self.calls.append(call)
        return hub.Task()

    async def stream(self, call: Call[Any, Any], /) -> Events:
        self.calls.append(call)
        yield Event(hub.StreamResponse())


def call_for(tenant: str, *, stream: bool = False) -> Call[Any, Any]:
    context = CallContext(tenant=tenant)
    if stream:
        return Call(SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="t", tenant=tenant), context)
    return Call(GET_TASK, hub.GetTaskRequest(id="t", tenant=tenant), context)


async def test_where_the_interface_names_a_tenant_only_that_one_is_served() -> None:
    upstream = Recorder()
    rule = TenantRule(upstream, "ours")
    calls = [call_for(tenant) for tenant in ("", "ours")]
    for call in calls:
        await rule.unary(call)
    assert upstream.calls == calls
    assert [event async for event in rule.stream(call_for("ours", stream=True))]
    with pytest.raises(A2AError) as unary:
        await rule.unary(call_for("theirs"))
    with pytest.raises(A2AError) as stream:
        await anext(rule.stream(call_for("theirs", stream=True)))
    assert len(upstream.calls) == 3
    for caught in (unary, stream):
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [one.field for one in caught.value.violations] == ["tenant"]
