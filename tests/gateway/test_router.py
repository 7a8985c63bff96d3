"""The upstream of a call, and tenants."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.operations import GET_TASK, SUBSCRIBE_TO_TASK
from a2a_bridge.core.service import Event, Events
from a2a_bridge.gateway import Route, Router
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


async def test_without_a_tenant_the_call_goes_to_the_default_as_it_is() -> None:
    upstream = Recorder()
    call = call_for("")
    await Router(Route(upstream)).unary(call)
    assert upstream.calls == [call]


async def test_a_tenant_that_names_a_route_selects_it_and_is_not_passed_on() -> None:
    default, other = Recorder(), Recorder()
    router = Router(Route(default), {"blue": Route(other)})
    for call in (call_for("blue"), call_for("blue", stream=True)):
        if call.operation is GET_TASK:
            await router.unary(call)
        else:
            assert [event async for event in router.stream(call)]
        passed = other.calls[-1]
        assert (passed.request.tenant, passed.context.tenant, passed.request.id) == ("", "", "t")
        assert call.request.tenant == "blue"
    assert default.calls == []


async def test_any_other_tenant_is_the_upstreams_affair() -> None:
    upstream = Recorder()
    call = call_for("theirs")
    await Router(Route(upstream)).unary(call)
    assert upstream.calls == [call]


async def test_where_the_interface_names_a_tenant_only_that_one_is_served() -> None:
    upstream = Recorder()
    router = Router(Route(upstream, tenant="ours"))
    for tenant in ("", "ours"):
        await router.unary(call_for(tenant))
    assert len(upstream.calls) == 2
    with pytest.raises(A2AError) as unary:
        await router.unary(call_for("theirs"))
    with pytest.raises(A2AError) as stream:
        await anext(router.stream(call_for("theirs", stream=True)))
    assert len(upstream.calls) == 2
    for caught in (unary, stream):
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [one.field for one in caught.value.violations] == ["tenant"]


@pytest.mark.parametrize("tenant", ["", "unknown"])
async def test_without_a_default_route_a_known_tenant_is_required(tenant: str) -> None:
    router = Router(tenants={"blue": Route(Recorder())})
    with pytest.raises(A2AError) as caught:
        await router.unary(call_for(tenant))
    assert caught.value.reason is Reason.INVALID_PARAMS


def test_a_router_needs_a_route() -> None:
    with pytest.raises(ValueError):
        Router()
