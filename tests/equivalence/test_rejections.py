"""Operations that an agent does not offer are rejected alike on every binding, and in process."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from a2a_bridge.app.runtime import ServeOptions
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import CallContext
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.hosting import Agent
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.samples import full
from a2a_bridge.testing.service_contract import invoke
from tests.equivalence.agent import ScriptedExecutor, card, scripted_agent
from tests.equivalence.faults import BAD_VERSIONS, EXCLUDED, FAULTS, GOOD_VERSIONS, Fault
from tests.equivalence.raw import Answer, RawGrpc, RawHttp, rpc
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


# Requests that our clients never send are rejected in the same way on every binding. It tests no engine.

MAX_BODY = 256 * 1024


@dataclass
class Raw:
    """The scripted agent's three bindings, for raw requests."""

    http: RawHttp
    grpc: RawGrpc

    async def answers(self, fault: Fault) -> dict[str, Answer]:
        """The answers of each binding that can express a fault."""
        found = {}
        if fault.jsonrpc is not None:
            found["JSONRPC"] = await self.http.jsonrpc(fault.jsonrpc)
        if fault.rest is not None:
            found["HTTP+JSON"] = await self.http.rest(*fault.rest)
        if fault.grpc is not None:
            found["GRPC"] = await self.grpc.unary(*fault.grpc)
        return found


@pytest.fixture
async def raw() -> AsyncIterator[Raw]:
    options = ServeOptions(host=HostOptions(max_body=MAX_BODY))
    async with stack(options) as running:
        raw = Raw(RawHttp(running.http), RawGrpc(running.grpc))
        yield raw
        await raw.http.close()
        await raw.grpc.close()


@each("fault", FAULTS)
async def test_a_fault_is_the_same_error_on_every_binding(raw: Raw, fault: Fault) -> None:
    answers = await raw.answers(fault)
    assert answers
    assert len(answers) == 3 or fault.excluded in EXCLUDED
    metadata = []
    for binding, answer in answers.items():
        assert answer.error is not None, (binding, answer.body)
        assert answer.error.reason is fault.reason, (binding, answer.error)
        assert answer.error.name == fault.reason.name, (binding, answer.error)
        assert tuple(one.field for one in answer.error.violations) == fault.fields, binding
        metadata.append(answer.error.metadata)
    assert all(one == metadata[0] for one in metadata), metadata


@each("fault", FAULTS)
async def test_statuses_follow_the_table(raw: Raw, fault: Fault) -> None:
    answers = await raw.answers(fault)
    statuses = {binding: answer.status for binding, answer in answers.items()}
    expected = {"JSONRPC": 200, "HTTP+JSON": fault.reason.http, "GRPC": int(fault.reason.grpc)}
    if fault.name == "verb wrong":
        expected["HTTP+JSON"] = 405
    assert statuses == {binding: expected[binding] for binding in answers}


async def test_too_large_is_the_same_error_on_every_binding(raw: Raw) -> None:
    text = "x" * (MAX_BODY + 1)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    request = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    )
    answers = [
        await raw.http.jsonrpc(rpc("SendMessage", {"message": message})),
        await raw.http.rest("POST", "/message:send", {"message": message}),
        await raw.grpc.unary("SendMessage", request.SerializeToString()),
    ]
    assert [answer.status for answer in answers] == [413, 413, int(Reason.REQUEST_TOO_LARGE.grpc)]
    for answer in answers:
        assert answer.error is not None
        assert answer.error.reason is Reason.REQUEST_TOO_LARGE
        assert answer.error.metadata == {"limit": str(MAX_BODY)}


@each("version", BAD_VERSIONS)
async def test_a_bad_version_is_rejected_on_every_binding(raw: Raw, version: str) -> None:
    http = {"A2A-Version": version}
    answers = {
        "JSONRPC": await raw.http.jsonrpc(rpc("ListTasks", {}), http),
        "HTTP+JSON": await raw.http.rest("GET", "/tasks", headers=http),
        "GRPC": await raw.grpc.unary("ListTasks", b"", {"a2a-version": version}),
        "JSONRPC query": await raw.http.jsonrpc(rpc("ListTasks", {}), {}, f"/?A2A-Version={version}"),
        "HTTP+JSON query": await raw.http.rest("GET", f"/tasks?A2A-Version={version}", headers={}),
    }
    seen = set()
    for way, answer in answers.items():
        assert answer.error is not None, way
        assert answer.error.reason is Reason.VERSION_NOT_SUPPORTED, way
        seen.add((answer.error.message, tuple(answer.error.metadata.items())))
    assert len(seen) == 1


@each("version", GOOD_VERSIONS)
async def test_a_good_version_is_served_on_every_binding(raw: Raw, version: str) -> None:
    http = {"A2A-Version": version}
    answers = [
        await raw.http.jsonrpc(rpc("ListTasks", {}), http),
        await raw.http.rest("GET", "/tasks", headers=http),
        await raw.grpc.unary("ListTasks", b"", {"a2a-version": version}),
        await raw.http.jsonrpc(rpc("ListTasks", {}), {}, f"/?A2A-Version={version}"),
        await raw.http.rest("GET", f"/tasks?A2A-Version={version}", headers={}),
    ]
    assert [answer.error for answer in answers] == [None] * 5


async def test_no_version_means_0_3_where_the_address_does_not_say(raw: Raw) -> None:
    for answer in (
        await raw.http.jsonrpc(rpc("ListTasks", {}), {}),
        await raw.http.rest("GET", "/tasks", headers={}),
        await raw.http.jsonrpc(rpc("ListTasks", {}), {"A2A-Version": ""}),
    ):
        assert answer.error is not None
        assert answer.error.reason is Reason.VERSION_NOT_SUPPORTED
    # On gRPC the package in the path names the version.
    assert (await raw.grpc.unary("ListTasks", b"", {})).error is None


async def test_checks_come_in_the_same_order_everywhere(raw: Raw) -> None:
    # Each request has a fault of every later check as well.
    old = {"A2A-Version": "0.3"}
    syntax = [await raw.http.jsonrpc("{", old), await raw.http.rest("POST", "/message:send", "{", old)]
    assert [answer.error and answer.error.reason for answer in syntax] == [Reason.PARSE_ERROR] * 2
    # An unknown path is not found in any version: a browser needs no other answer.
    version = [
        await raw.http.jsonrpc(rpc("Nope", 7), old),
        await raw.http.rest("POST", "/message:send", {"message": 7}, old),
        await raw.grpc.unary("Nope", b"\xff", {"a2a-version": "0.3"}),
        await raw.grpc.unary("SendMessage", b"", {"a2a-version": "0.3"}),
    ]
    assert [answer.error and answer.error.reason for answer in version] == [Reason.VERSION_NOT_SUPPORTED] * 4


async def test_numbers_of_later_enums_are_taken_alike(raw: Raw) -> None:
    message = {"messageId": "m", "role": 99, "parts": [{"text": "hello"}]}
    wire = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=99, parts=[hub.Part(text="hello")])
    ).SerializeToString()
    answers = [
        await raw.http.jsonrpc(rpc("SendMessage", {"message": message})),
        await raw.http.rest("POST", "/message:send", {"message": message}),
        await raw.grpc.unary("SendMessage", wire),
        await raw.http.jsonrpc(rpc("ListTasks", {"status": 99})),
        await raw.http.rest("GET", "/tasks?status=99"),
        await raw.grpc.unary("ListTasks", hub.ListTasksRequest(status=99).SerializeToString()),
    ]
    reasons = [answer.error and answer.error.reason for answer in answers]
    assert (len(set(reasons[:3])), len(set(reasons[3:]))) == (1, 1)


async def test_unknown_members_are_ignored(raw: Raw) -> None:
    message = {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "hello", "later": {"deep": [1]}}],
        "kind": "message",
    }
    params = {"message": message, "fromTheFuture": [1, {"x": None}]}
    known = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hello")])
    ).SerializeToString()
    jsonrpc = await raw.http.jsonrpc(rpc("SendMessage", params))
    rest = await raw.http.rest("POST", "/message:send", params)
    grpc = await raw.grpc.unary("SendMessage", known + b"\xfa\x7f\x03abc")
    assert jsonrpc.body["result"]["message"]["parts"] == [{"text": "hello"}]
    assert rest.body["message"]["parts"] == [{"text": "hello"}]
    assert hub.SendMessageResponse.FromString(grpc.body).message.parts[0].text == "hello"
    ignored = await raw.http.rest("GET", "/tasks/no-such-task?fromTheFuture=1")
    assert ignored.error is not None
    assert ignored.error.reason is Reason.TASK_NOT_FOUND
    listed = await raw.http.rest("GET", "/tasks?fromTheFuture=1&pageSize=3&A2A-Version=1.0")
    assert listed.error is None


@each("request_id", [0, -1, "", "é", 2**53, None, "a" * 1000])
async def test_jsonrpc_echoes_the_id(raw: Raw, request_id: object) -> None:
    for params, member in (({"id": "t"}, "error"), ({"id": 7}, "error")):
        answer = await raw.http.jsonrpc(rpc("GetTask", params, request_id=request_id))
        assert answer.body["id"] == request_id
        assert member in answer.body
    assert (await raw.http.jsonrpc("{")).body["id"] is None
