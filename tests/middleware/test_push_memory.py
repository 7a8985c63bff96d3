"""push_memory(): older callers get back the content that they sent beside their configs."""

import json
from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext, Origin, Principal, ResponseParameters
from a2a_bridge.core.callers import Scope
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import V1_0, Dialect
from a2a_bridge.dialects.unmapped import KEY, read, write
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.push import Registrations, push_memory
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.middleware.scene import ask, send

OLD = Dialect("0.3", V1_0.card, {}, final_events=True)
ALICE = Scope("", "alice")


def caller(version: str = "0.3", side_channel: str = "") -> CallContext:
    return CallContext(
        origin=Origin("JSONRPC", version), principal=Principal("alice"), side_channel=side_channel
    )


def config(config_id: str = "p", **members: Any) -> hub.TaskPushNotificationConfig:
    return hub.TaskPushNotificationConfig(task_id="t", id=config_id, url="http://hook/", **members)


class Agent:
    """Keeps configs; names those without a name."""

    def __init__(self) -> None:
        self.configs: dict[str, hub.TaskPushNotificationConfig] = {}
        self.known = Registrations()
        probe = Probe()
        probe.on_unary = self._answer
        probe.on_stream = yielding()
        self.service = push_memory(self.known, [V1_0, OLD])(probe)

    async def _answer(self, call: Call[Any, Any]) -> Any:
        request = call.request
        if call.operation is ops.CREATE_PUSH_CONFIG:
            made = self.configs[request.id or "made"] = config(request.id or "made")
            return made
        if call.operation is ops.GET_PUSH_CONFIG:
            return self.configs[request.id]
        if call.operation is ops.DELETE_PUSH_CONFIG:
            del self.configs[request.id]
            return Empty()
        if call.operation is ops.LIST_PUSH_CONFIGS:
            return hub.ListTaskPushNotificationConfigsResponse(configs=self.configs.values())
        return hub.SendMessageResponse()

    async def create(self, context: CallContext, config_id: str = "p") -> str | None:
        return await self._told(ops.CREATE_PUSH_CONFIG, config(config_id), context)

    async def get(self, context: CallContext, config_id: str = "p") -> str | None:
        request = hub.GetTaskPushNotificationConfigRequest(task_id="t", id=config_id)
        return await self._told(ops.GET_PUSH_CONFIG, request, context)

    async def list(self, context: CallContext) -> str | None:
        request = hub.ListTaskPushNotificationConfigsRequest(task_id="t")
        return await self._told(ops.LIST_PUSH_CONFIGS, request, context)

    async def delete(self, context: CallContext) -> None:
        request = hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="p")
        await self._told(ops.DELETE_PUSH_CONFIG, request, context)

    async def _told(self, operation: Any, request: Any, context: CallContext) -> str | None:
        """The content beside the answer."""
        await ask(self.service, Call(operation, request, context))
        return context.reply.side_channel or None


def test_a_service_of_1_0_only_is_not_wrapped() -> None:
    probe = Probe()
    assert push_memory(Registrations(), [V1_0])(probe) is probe


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.mark.parametrize("operation", [ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE])
async def test_callers_without_side_content_are_not_remembered(operation: Any, agent: Agent) -> None:
    await agent.create(caller())
    request = send().request
    await ask(agent.service, Call(operation, request, caller()))
    request.configuration.task_push_notification_config.CopyFrom(config(""))
    await ask(agent.service, Call(operation, request, caller()))
    assert len(agent.known) == 0


async def test_side_content_of_a_config_comes_back(agent: Agent) -> None:
    assert await agent.create(caller(side_channel="said")) == "said"
    assert await agent.create(caller(), "q") is None
    assert await agent.get(caller()) == "said"
    assert await agent.get(caller(), "q") is None


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
async def test_side_content_of_the_configs_in_a_list_comes_back(binding: str, agent: Agent) -> None:
    await agent.create(caller(), "o")
    await agent.create(caller(side_channel=write("kind", [["/pushNotificationConfig/x", 1]])))
    await agent.create(caller(side_channel=write("kind", [["/y", 2], ["/z", 3]])), "q")
    asking = caller().replace(origin=Origin(binding, "0.3"), reply=ResponseParameters())
    told = json.loads(await agent.list(asking) or "")
    assert [text and read(text, "kind") for text in told] == [
        None,
        [["/pushNotificationConfig/x", 1]],
        [["/y", 2], ["/z", 3]],
    ]


async def test_side_content_of_a_config_within_a_message_comes_back(agent: Agent) -> None:
    request = send().request
    request.configuration.task_push_notification_config.CopyFrom(config(""))
    inline = "/configuration/pushNotificationConfig/authentication"
    entries: list[Any] = [["/configuration/blocking", True], [inline, {"schemes": []}]]
    request.metadata[KEY] = write("kind", entries)
    await ask(agent.service, Call(ops.SEND_MESSAGE, request, caller()))
    agent.configs["given"] = config("given")
    expected = [["/pushNotificationConfig/authentication", {"schemes": []}]]
    assert read(await agent.get(caller(), "given"), "kind") == expected


async def test_callers_of_1_0_hear_nothing_of_it(agent: Agent) -> None:
    await agent.create(caller(side_channel="said"))
    assert await agent.get(caller("1.0")) is None
    assert await agent.list(caller("1.0")) is None
    assert await agent.create(caller("1.0", side_channel="forged")) is None
    assert await agent.get(caller()) is None


async def test_a_deleted_config_is_forgotten(agent: Agent) -> None:
    await agent.create(caller(side_channel="said"))
    await agent.delete(caller())
    agent.configs["p"] = config()
    assert await agent.get(caller()) is None
    assert await agent.list(caller()) is None


async def test_too_long_side_content_is_not_remembered(agent: Agent) -> None:
    assert await agent.create(caller(side_channel="x" * 5000)) is None


async def test_a_config_that_was_rejected_is_not_noted(agent: Agent) -> None:
    probe = Probe()
    probe.on_unary = answering(A2AError(Reason.TASK_NOT_FOUND))
    with pytest.raises(A2AError):
        await ask(
            push_memory(agent.known, [OLD])(probe),
            Call(ops.CREATE_PUSH_CONFIG, config(), caller(side_channel="x")),
        )
    assert agent.known.of(ALICE, config()) == ""
