"""validate(): REQUIRED members that are absent are named, all of them, and nothing is called."""

from typing import Any

import pytest

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import EXTENSIONS_PARAMETER, Call, CallContext, Origin
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.middleware import extensions, validate
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from a2a_bridge.testing.samples import minimal
from tests.middleware.scene import TASK, ask, get, rejection, subscribe
from tests.rejections import rejected

LACKING = [
    (ops.SEND_MESSAGE, hub.SendMessageRequest(), ["message"]),
    (
        ops.SEND_MESSAGE,
        hub.SendMessageRequest(message=hub.Message()),
        ["message.messageId", "message.role", "message.parts"],
    ),
    (
        ops.SEND_STREAMING_MESSAGE,
        hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part()])),
        ["message.parts[0]"],
    ),
    (
        ops.SEND_MESSAGE,
        hub.SendMessageRequest(
            message=minimal(hub.Message),
            configuration=hub.SendMessageConfiguration(task_push_notification_config={"id": "p"}),
        ),
        ["configuration.taskPushNotificationConfig.url"],
    ),
    (ops.GET_TASK, hub.GetTaskRequest(), ["id"]),
    (ops.CANCEL_TASK, hub.CancelTaskRequest(), ["id"]),
    (ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(), ["id"]),
    (ops.GET_PUSH_CONFIG, hub.GetTaskPushNotificationConfigRequest(), ["taskId", "id"]),
    (ops.CREATE_PUSH_CONFIG, hub.TaskPushNotificationConfig(task_id="t"), ["url"]),
]


@pytest.fixture
def probe() -> Probe:
    probe = Probe()
    probe.on_unary = answering(TASK)
    probe.on_stream = yielding(TASK)
    return probe


@pytest.mark.parametrize(("operation", "request_", "fields"), LACKING)
async def test_absent_members_are_named(
    operation: Any, request_: Any, fields: list[str], probe: Probe
) -> None:
    with pytest.raises(A2AError) as caught:
        await ask(validate()(probe), Call(operation, request_, CallContext()))
    assert rejection(caught.value) == (Reason.INVALID_PARAMS, fields)
    assert all(field in caught.value.message for field in fields)
    assert probe.calls == []


@pytest.mark.parametrize("operation", ops.ALL, ids=[operation.name for operation in ops.ALL])
async def test_complete_requests_pass(operation: Any, probe: Probe) -> None:
    call = Call(operation, minimal(operation.request), CallContext())
    await ask(validate()(probe), call)
    assert probe.calls == [call]


@pytest.mark.parametrize(
    ("version", "elsewhere"),
    [("0.3", True), ("0.2.5", True), ("1.0", True), ("", True), ("0.3", False), ("0.2.5", False)],
)
async def test_a_remote_agent_decides_about_members_that_0_x_allows_to_be_empty(
    version: str, elsewhere: bool, probe: Probe
) -> None:
    allowed = elsewhere and version.startswith("0.")
    checked = validate(elsewhere=elsewhere)(probe)
    context = CallContext(origin=Origin("JSONRPC", version))
    message = hub.Message(message_id="m", role=hub.ROLE_USER)
    call: Any = Call(ops.SEND_MESSAGE, hub.SendMessageRequest(message=message), context)
    if allowed:
        await ask(checked, call)
    else:
        with pytest.raises(A2AError) as caught:
            await ask(checked, call)
        assert rejection(caught.value) == (Reason.INVALID_PARAMS, ["message.parts"])
    assert len(probe.calls) == allowed
    call = Call(ops.SEND_MESSAGE, hub.SendMessageRequest(), context)
    with pytest.raises(A2AError) as caught:
        await ask(checked, call)
    assert rejection(caught.value) == (Reason.INVALID_PARAMS, ["message"])


# --- extensions(): required ones must be declared, and the reply names the active ones ---

NEEDED, USEFUL, UNKNOWN = (f"https://e.example/{name}" for name in ("needed", "useful", "unknown"))


def card(**required: bool) -> hub.AgentCard:
    found = [
        hub.AgentExtension(uri=f"https://e.example/{name}", required=must) for name, must in required.items()
    ]
    return hub.AgentCard(capabilities=hub.AgentCapabilities(extensions=found))


def declaring(*uris: str) -> CallContext:
    return CallContext(parameters={EXTENSIONS_PARAMETER: ",".join(uris)} if uris else {})


@pytest.mark.parametrize("call", [get, subscribe])
@pytest.mark.parametrize("declared", [(), (USEFUL,), (UNKNOWN,)])
async def test_a_required_extension_must_be_declared(
    call: Any, declared: tuple[str, ...], probe: Probe
) -> None:
    service = extensions(card(needed=True, useful=False))(probe)
    with rejected(Reason.EXTENSION_SUPPORT_REQUIRED) as caught:
        await ask(service, call(declaring(*declared)))
    assert caught.value.metadata == {"requiredExtensions": NEEDED}
    assert probe.calls == []


@pytest.mark.parametrize("call", [get, subscribe])
@pytest.mark.parametrize(
    ("declared", "active"), [((NEEDED,), NEEDED), ((UNKNOWN, USEFUL, NEEDED, USEFUL), f"{USEFUL}, {NEEDED}")]
)
async def test_active_extensions_are_returned(
    call: Any, declared: tuple[str, ...], active: str, probe: Probe
) -> None:
    context = declaring(*declared)
    await ask(extensions(card(needed=True, useful=False))(probe), call(context))
    assert context.reply == {EXTENSIONS_PARAMETER: active}
    assert len(probe.calls) == 1


async def test_the_extended_card_may_be_asked_for_without(probe: Probe) -> None:
    call = Call(ops.GET_EXTENDED_AGENT_CARD, hub.GetExtendedAgentCardRequest(), CallContext())
    assert await ask(extensions(card(needed=True))(probe), call) == TASK


async def test_optional_extensions_may_be_ignored(probe: Probe) -> None:
    context = declaring()
    assert await ask(extensions(card(useful=False))(probe), get(context)) == TASK
    assert context.reply == {}


async def test_an_agent_without_extensions_is_left_alone(probe: Probe) -> None:
    assert extensions(card())(probe) is probe
