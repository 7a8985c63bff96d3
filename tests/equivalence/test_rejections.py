"""Operations that an agent does not offer are rejected alike on every binding, and in process: capabilities,
extensions.
"""

from __future__ import annotations

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.service_contract import invoke
from tests.equivalence.agent import ScriptedExecutor, card, scripted_agent
from tests.equivalence.stack import BINDINGS, stack
from tests.equivalence.talk import error_tree, sending

PUSH = (ops.CREATE_PUSH_CONFIG, ops.GET_PUSH_CONFIG, ops.LIST_PUSH_CONFIGS, ops.DELETE_PUSH_CONFIG)
EXTENSION = "https://e.example/needed"


async def rejections(agent: Agent, operation: Any, request: Any) -> dict[str, Any]:
    """The rejections of each way to call."""
    found = {}
    async with stack(agent=agent) as running:
        for way, service in running.ways.items():
            with pytest.raises(A2AError) as caught:
                await invoke(service, operation, request)
            found[way] = error_tree(caught.value)["error"]
    return found


def assert_all(found: dict[str, Any], reason: Reason) -> None:
    assert found["in process"]["reason"] == reason.name
    assert [found[binding] for binding in BINDINGS] == [found["in process"]] * 3


@pytest.mark.parametrize("operation", PUSH, ids=lambda operation: operation.name)
async def test_push_notifications_that_are_not_supported(operation: Any) -> None:
    found = await rejections(scripted_agent(push_notifications=False), operation, full(operation.request))
    assert_all(found, Reason.PUSH_NOTIFICATION_NOT_SUPPORTED)


async def test_a_push_config_in_a_message_that_is_not_supported() -> None:
    request = sending("open", "done")
    request.configuration.task_push_notification_config.url = "https://hook.example/"
    found = await rejections(scripted_agent(push_notifications=False), ops.SEND_MESSAGE, request)
    assert_all(found, Reason.PUSH_NOTIFICATION_NOT_SUPPORTED)


@pytest.mark.parametrize(
    "operation", [ops.SEND_STREAMING_MESSAGE, ops.SUBSCRIBE_TO_TASK], ids=["send", "subscribe"]
)
async def test_streams_that_are_not_supported(operation: Any) -> None:
    request = sending("say hello") if operation is ops.SEND_STREAMING_MESSAGE else full(operation.request)
    found = await rejections(scripted_agent(streaming=False), operation, request)
    assert_all(found, Reason.UNSUPPORTED_OPERATION)


async def test_an_extended_card_that_is_not_supported() -> None:
    request = hub.GetExtendedAgentCardRequest()
    found = await rejections(scripted_agent(extended_agent_card=False), ops.GET_EXTENDED_AGENT_CARD, request)
    assert_all(found, Reason.UNSUPPORTED_OPERATION)


async def test_an_extended_card_that_is_promised_and_not_there() -> None:
    agent = Agent(ScriptedExecutor(), card=card())
    found = await rejections(agent, ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest())
    assert_all(found, Reason.EXTENDED_AGENT_CARD_NOT_CONFIGURED)


async def test_an_extension_that_is_required() -> None:
    needed = card()
    needed.capabilities.extensions.add(uri=EXTENSION, required=True)
    agent = Agent(ScriptedExecutor(), card=needed)
    found = await rejections(agent, ops.SEND_MESSAGE, sending("say hello"))
    assert_all(found, Reason.EXTENSION_SUPPORT_REQUIRED)
    async with stack(agent=agent) as running:
        for way, service in running.ways.items():
            context = CallContext(parameters={"a2a-extensions": f"https://e.example/other, {EXTENSION}"})
            answer = await invoke(service, ops.SEND_MESSAGE, sending("say hello"), context)
            assert answer.message.parts[0].text == "hello", way
            assert context.reply == {"a2a-extensions": EXTENSION}, way


async def test_tenants_do_not_see_each_other() -> None:
    async with stack() as running:
        seen = []
        for binding in BINDINGS:
            service = running.ways[binding]
            request = sending("open", "done")
            request.tenant = "acme"
            task_id = (await invoke(service, ops.SEND_MESSAGE, request)).task.id
            own = await invoke(service, ops.GET_TASK, hub.GetTaskRequest(id=task_id, tenant="acme"))
            assert own.id == task_id
            errors = []
            for tenant, name in (("other", task_id), ("", task_id), ("acme", "missing-" + task_id)):
                with pytest.raises(A2AError) as caught:
                    await invoke(service, ops.GET_TASK, hub.GetTaskRequest(id=name, tenant=tenant))
                tree = error_tree(caught.value)["error"]
                assert tree["metadata"].pop("taskId") == name
                errors.append(tree)
            assert errors[0] == errors[1] == errors[2]
            listed = await invoke(service, ops.LIST_TASKS, hub.ListTasksRequest(tenant="other"))
            assert listed.total_size == 0
            seen.append(errors[0])
        assert seen[0] == seen[1] == seen[2]
