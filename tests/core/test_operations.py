"""The eleven operations are those of the descriptor, and the two faces of a service have all of them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from typing import Any, cast, get_type_hints

import pytest

from a2a_bridge.app.peer import Peer
from a2a_bridge.core import operations as ops
from a2a_bridge.core.agent_api import METHODS, Client, service_of
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.service import Event, Events
from a2a_bridge.hosting import Engine
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.agents import EchoAgent

RPCS = hub.DESCRIPTOR.services_by_name["A2AService"].methods
NAMES = [operation.name for operation in ops.ALL]


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def methods(cls: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_all_are_the_rpcs_in_their_order() -> None:
    assert [rpc.name for rpc in RPCS] == NAMES
    assert len(NAMES) == len(set(NAMES)) == 11


@each(("operation", "rpc"), list(zip(ops.ALL, RPCS, strict=True)))
def test_each_has_the_messages_and_the_manner_of_its_rpc(
    operation: ops.Operation[Any, Any], rpc: Any
) -> None:
    assert operation.request.DESCRIPTOR is rpc.input_type
    assert operation.response.DESCRIPTOR is rpc.output_type
    assert isinstance(operation, ops.Streaming if rpc.server_streaming else ops.Unary)
    assert operation.name in repr(operation)


def test_operations_are_values_with_an_identity() -> None:
    twin = ops.Unary("GetTask", hub.GetTaskRequest, hub.Task)
    assert twin != ops.GET_TASK
    assert {ops.GET_TASK: 1}.get(twin) is None


def test_every_operation_has_its_method_everywhere() -> None:
    assert list(METHODS) == list(ops.ALL)
    assert [snake(name) for name in NAMES] == list(METHODS.values())
    assert methods(Client) == set(METHODS.values())


@each("operation", ops.ALL)
def test_methods_have_the_types_of_their_operation(operation: ops.Operation[Any, Any]) -> None:
    method = getattr(Engine(EchoAgent()), METHODS[operation])
    request, context, given = get_type_hints(method).values()
    assert request is operation.request
    assert context is CallContext
    if isinstance(operation, ops.Streaming):
        assert operation.response is hub.StreamResponse
        assert given == Events
        assert not inspect.iscoroutinefunction(method)
    else:
        assert given is operation.response
        assert inspect.iscoroutinefunction(method)


def test_the_engine_is_a_service_of_all_of_them() -> None:
    engine = Engine(EchoAgent())
    assert all(callable(getattr(engine, name)) for name in METHODS.values())


def test_every_operation_of_the_clients_says_what_it_does() -> None:
    for cls in (Client, Peer):
        own = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
        assert [name for name, value in own.items() if not value.__doc__] == []
    assert vars(Client).keys() >= set(METHODS.values())


class Recorder:
    """An agent that has every method and tells which one was called."""

    def __getattr__(self, name: str) -> Any:
        def streaming(request: Any, context: CallContext) -> Any:
            async def events() -> AsyncGenerator[Any, None]:
                yield Event(cast("Any", (name, request, context)))

            return events()

        async def unary(request: Any, context: CallContext) -> Any:
            return name, request, context

        stream = name in ("send_streaming_message", "subscribe_to_task")
        return streaming if stream else unary


@each("operation", ops.ALL)
@each("given", [True, False])
async def test_two_and_eleven_methods_are_one(operation: ops.Operation[Any, Any], given: bool) -> None:
    client = Client(service_of(Recorder()))
    request, context = operation.request(), CallContext(tenant="t")
    answer = getattr(client, METHODS[operation])(request, *([context] if given else []))
    name, seen, preserved = await (anext(answer) if isinstance(operation, ops.Streaming) else answer)
    assert (name, seen) == (METHODS[operation], request)
    assert preserved is context if given else preserved.tenant == ""


async def test_the_extended_card_may_be_asked_for_without_a_request() -> None:
    name, request, _ = await Client(service_of(Recorder())).get_extended_agent_card()
    assert (name, request) == ("get_extended_agent_card", hub.GetExtendedAgentCardRequest())


async def test_an_operation_of_a_later_version_is_unsupported() -> None:
    unknown = ops.Unary("Teleport", hub.GetTaskRequest, hub.Task)
    with pytest.raises(A2AError) as caught:
        await service_of(Recorder()).unary(Call(unknown, hub.GetTaskRequest(), CallContext()))
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION


class OnlyTasks:
    """It has one method."""

    async def get_task(self, request: hub.GetTaskRequest, _: CallContext, /) -> hub.Task:
        return hub.Task(id=request.id)


class Bare:
    """It has no method."""


@each("agent", [OnlyTasks, Bare])
@each("operation", [one for one in ops.ALL if one is not ops.GET_TASK])
async def test_an_operation_that_the_agent_lacks_is_unsupported(
    operation: ops.Operation[Any, Any], agent: Any
) -> None:
    service = service_of(agent())
    call: Call[Any, Any] = Call(operation, operation.request(), CallContext())
    answer = anext(service.stream(call)) if isinstance(operation, ops.Streaming) else service.unary(call)
    with pytest.raises(A2AError) as caught:
        await answer
    assert caught.value.reason is Reason.UNSUPPORTED_OPERATION
    assert caught.value.metadata == {"operation": operation.name}
    if agent is OnlyTasks:
        assert (await Client(service).get_task(hub.GetTaskRequest(id="t"))).id == "t"
