"""The gRPC rows of 0.3: their requests, their errors, and the content beside them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects.dialect import GRPC, Row
from a2a_bridge.dialects.v0_3 import proto_rows
from a2a_bridge.dialects.v0_3.forms import BY_FILES, GRPC_FORM
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.pb.google_protobuf import Empty
from a2a_bridge.testing.each import each
from tests.strategies import messages

UNKNOWN = b"\x9a\x06\x02hi"


def row(operation: Any) -> Row[str, bytes]:
    found = GRPC_FORM.row(operation)
    assert found is not None
    return found


def test_the_rows_are_those_of_the_service() -> None:
    service = v0.DESCRIPTOR.services_by_name["A2AService"]
    for form in (GRPC_FORM, *(forms[GRPC] for forms in BY_FILES.values())):
        assert {one.address for one in form.rows} == {
            f"/{service.full_name}/{method.name}" for method in service.methods
        }
        assert {one.operation for one in form.rows} == set(ops.ALL) - {ops.LIST_TASKS}
    for one in GRPC_FORM.rows:
        method = service.methods_by_name[one.address.rpartition("/")[2]]
        assert method.server_streaming == one.streaming


REQUESTS: list[tuple[Any, Any, Any]] = [
    (
        ops.GET_TASK,
        v0.GetTaskRequest(name="tasks/a%2Fb", history_length=3),
        hub.GetTaskRequest(id="a/b", history_length=3),
    ),
    (ops.GET_TASK, v0.GetTaskRequest(name="tasks/t"), hub.GetTaskRequest(id="t")),
    (ops.CANCEL_TASK, v0.CancelTaskRequest(name="tasks/t"), hub.CancelTaskRequest(id="t")),
    (ops.SUBSCRIBE_TO_TASK, v0.TaskSubscriptionRequest(name="tasks/t"), hub.SubscribeToTaskRequest(id="t")),
    (
        ops.GET_PUSH_CONFIG,
        v0.GetTaskPushNotificationConfigRequest(name="tasks/t/pushNotificationConfigs/c"),
        hub.GetTaskPushNotificationConfigRequest(task_id="t", id="c"),
    ),
    (
        ops.DELETE_PUSH_CONFIG,
        v0.DeleteTaskPushNotificationConfigRequest(name="tasks/t/pushNotificationConfigs/c"),
        hub.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c"),
    ),
    (
        ops.LIST_PUSH_CONFIGS,
        v0.ListTaskPushNotificationConfigRequest(parent="tasks/t", page_size=2, page_token="p"),  # noqa: S106
        hub.ListTaskPushNotificationConfigsRequest(task_id="t", page_size=2, page_token="p"),  # noqa: S106
    ),
    (ops.GET_EXTENDED_AGENT_CARD, v0.GetAgentCardRequest(), hub.GetExtendedAgentCardRequest()),
]


@each(("operation", "wire", "message"), REQUESTS)
def test_requests_say_the_same_in_both(operation: Any, wire: Any, message: Any) -> None:
    raw_bytes = wire.SerializeToString()
    assert row(operation).decode_request(raw_bytes) == message
    assert row(operation).encode_request(message) == raw_bytes


@pytest.mark.parametrize(("operation", "wire", "_"), REQUESTS[:-1])
def test_a_request_that_names_nothing_is_rejected_by_field(operation: Any, wire: Any, _: Any) -> None:
    field = "parent" if operation is ops.LIST_PUSH_CONFIGS else "name"
    for name in ("", "tasks/a/b/c", "tasks/"):
        spoilt = type(wire)()
        setattr(spoilt, field, name)
        with pytest.raises(A2AError) as caught:
            row(operation).decode_request(spoilt.SerializeToString())
        assert caught.value.reason is Reason.INVALID_PARAMS
        assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize(("operation", "_", "message"), REQUESTS[:-1])
def test_a_request_without_ids_cannot_be_sent(operation: Any, _: Any, message: Any) -> None:
    with pytest.raises(A2AError, match="is required"):
        row(operation).encode_request(type(message)())


@each(("operation", "wire", "bare"), REQUESTS)
def test_content_that_the_hub_lacks_travels_beside(operation: Any, wire: Any, bare: Any) -> None:
    one, plain = row(operation), wire.SerializeToString()
    if one.extras.request is None:
        assert operation is ops.GET_EXTENDED_AGENT_CARD
        return
    assert one.extras.request.extract(plain) == {}
    odd = plain + UNKNOWN
    told = one.extras.request.extract(odd)
    assert told[SIDE_CHANNEL].isascii()
    assert one.extras.request.restore(one.encode_request(one.decode_request(odd)), told) == odd
    assert one.extras.request.restore(plain, {}) == plain


def test_the_side_channel_is_bounded() -> None:
    extract = row(ops.GET_TASK).extras.request.extract
    assert extract is not None
    with pytest.raises(A2AError, match="4096") as caught:
        extract(v0.GetTaskRequest(name="tasks/t").SerializeToString() + b"\x9a\x06\x80\x20" + b"x" * 4096)
    assert caught.value.reason is Reason.INVALID_PARAMS


@pytest.mark.parametrize(
    "told", ["", "x", "[]", '{"v":1,"proto":[["/name",null,"tasks/evil"]]}', '{"v":1,"proto":7}']
)
def test_the_side_channel_cannot_change_a_request(told: str) -> None:
    restore = row(ops.GET_TASK).extras.request.restore
    assert restore is not None
    wire = v0.GetTaskRequest(name="tasks/t").SerializeToString()
    assert restore(wire, {SIDE_CHANNEL: told}) == wire


def test_the_side_channel_cannot_rename_a_task() -> None:
    one = row(ops.GET_TASK)
    assert one.extras.request is not None
    wire = v0.GetTaskRequest(name="tasks/t").SerializeToString()
    told = one.extras.request.extract(wire + UNKNOWN)[SIDE_CHANNEL]
    # the same residue, with a field of the request where the unknown one was
    forged = told.replace("mgYCaGk=", "CgZ0YXNrcy94")
    assert forged != told
    assert one.extras.request.restore(wire, {SIDE_CHANNEL: forged}) == wire


# --- configurations ---
def create(**members: Any) -> bytes:
    wire: bytes = v0.CreateTaskPushNotificationConfigRequest(**members).SerializeToString()
    return wire


def config(name: str = "", **members: Any) -> v0.TaskPushNotificationConfig:
    return v0.TaskPushNotificationConfig(
        name=name, push_notification_config=v0.PushNotificationConfig(url="https://x", **members)
    )


NAME = "tasks/t/pushNotificationConfigs/"


@pytest.mark.parametrize(
    ("members", "identifier"),
    [
        ({"parent": "tasks/t", "config_id": "1", "config": config(NAME + "3", id="2")}, "1"),
        ({"parent": "tasks/t", "config": config(NAME + "3", id="2")}, "2"),
        ({"parent": "tasks/t", "config": config(NAME + "3")}, "3"),
        ({"parent": "task/t/pushNotificationConfigs", "config": config()}, ""),
        ({"config": config(NAME + "3")}, "3"),
        ({"parent": "tasks/t", "config": config(NAME + "None")}, ""),
        ({"parent": "tasks/t", "config": config(NAME + "None", id="None")}, "None"),
    ],
)
def test_the_id_of_a_configuration_is_found_in_three_places(members: Any, identifier: str) -> None:
    message = row(ops.CREATE_PUSH_CONFIG).decode_request(create(**members))
    assert (message.task_id, message.id, message.url) == ("t", identifier, "https://x")


def test_an_id_is_written_in_all_three() -> None:
    message = hub.TaskPushNotificationConfig(task_id="t", id="c", url="https://x")
    wire = v0.CreateTaskPushNotificationConfigRequest.FromString(
        row(ops.CREATE_PUSH_CONFIG).encode_request(message)
    )
    assert (wire.parent, wire.config_id) == ("tasks/t", "c")
    assert wire.config == config(NAME + "c", id="c")


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({}, "parent"),
        ({"parent": "tasks/a/b", "config": config()}, "parent"),
        ({"parent": "tasks/t", "config": config("nonsense")}, "config.name"),
        ({"parent": "tasks/other", "config": config(NAME + "c")}, "config.name"),
    ],
)
def test_a_configuration_of_no_task_is_rejected_by_field(members: Any, field: str) -> None:
    with pytest.raises(A2AError) as caught:
        row(ops.CREATE_PUSH_CONFIG).decode_request(create(**members))
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize(
    ("schemes", "scheme"),
    [
        (["Digest", "Bearer"], "Bearer"),
        (["Digest", "basic"], "basic"),
        (["a", "b"], "a"),
        (["Bearer"], "Bearer"),
        ([], ""),
    ],
)
def test_one_of_several_schemes_is_taken_and_all_are_answered(schemes: list[str], scheme: str) -> None:
    one = row(ops.CREATE_PUSH_CONFIG)
    assert one.extras.request is not None
    assert one.extras.response is not None
    authentication = v0.AuthenticationInfo(schemes=schemes, credentials="c")
    raw_bytes = create(parent="tasks/t", config_id="c", config=config(authentication=authentication))
    message = one.decode_request(raw_bytes)
    assert message.authentication.scheme == scheme
    told = one.extras.request.extract(raw_bytes)
    answer = v0.TaskPushNotificationConfig.FromString(
        one.extras.response.restore(one.encode_response(message), told)
    )
    assert answer.push_notification_config.authentication == authentication
    assert (answer.name, answer.push_notification_config.id) == (NAME + "c", "c")


def test_a_list_carries_the_side_content_of_each_configuration() -> None:
    one = row(ops.LIST_PUSH_CONFIGS)
    assert one.extras.response is not None
    several = v0.AuthenticationInfo(schemes=["a", "b"], credentials="c")
    wire = v0.ListTaskPushNotificationConfigResponse(
        configs=[config(NAME + "1", id="1"), config(NAME + "2", id="2", authentication=several)],
        next_page_token="n",  # noqa: S106
    ).SerializeToString()
    message = one.decode_response(wire)
    assert [(each.task_id, each.id) for each in message.configs] == [("t", "1"), ("t", "2")]
    assert message.next_page_token == "n"  # noqa: S105
    told = one.extras.response.extract(wire)
    assert one.extras.response.restore(one.encode_response(message), told) == wire


def test_an_answer_with_an_unreadable_name_is_the_agents_fault() -> None:
    with pytest.raises(A2AError, match="name") as caught:
        row(ops.GET_PUSH_CONFIG).decode_response(config("nonsense").SerializeToString())
    assert caught.value.reason is Reason.INVALID_AGENT_RESPONSE


def test_removing_answers_with_nothing() -> None:
    one = row(ops.DELETE_PUSH_CONFIG)
    assert (one.encode_response(Empty()), one.decode_response(b"")) == (b"", Empty())


@settings(max_examples=200)
@given(data=st.data())
def test_any_bytes_are_rejected_or_understood(data: st.DataObject) -> None:
    one = data.draw(st.sampled_from(GRPC_FORM.rows))
    raw_bytes = bytearray(
        data.draw(messages(v0.StreamResponse) | messages(v0.SendMessageRequest)).SerializeToString()
    )
    for _ in range(data.draw(st.integers(0, 4))):
        if raw_bytes:
            raw_bytes[data.draw(st.integers(0, len(raw_bytes) - 1))] = data.draw(st.integers(0, 255))
    for read, beside in (
        (one.decode_request, one.extras.request),
        (one.decode_response, one.extras.response),
    ):
        try:
            read(bytes(raw_bytes))
            if beside is not None:
                beside.extract(bytes(raw_bytes))
        except A2AError as error:
            rejected = error
        else:
            continue
        assert rejected.reason in (Reason.INVALID_PARAMS, Reason.PARSE_ERROR, Reason.INVALID_AGENT_RESPONSE)


PAIRS = [
    proto_rows.GET_TASK,
    proto_rows.CANCEL,
    proto_rows.SUBSCRIBE,
    proto_rows.CREATE_CONFIG,
    proto_rows.GET_CONFIG,
    proto_rows.DELETE_CONFIG,
    proto_rows.LIST_CONFIGS,
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.wire.DESCRIPTOR.name)
@settings(max_examples=40)
@given(data=st.data())
def test_any_request_is_understood_or_rejected_by_field_and_comes_back(
    pair: Any, data: st.DataObject
) -> None:
    wire = data.draw(messages(pair.wire))
    if data.draw(st.booleans()):
        wire.MergeFromString(UNKNOWN)
    field = "name" if "name" in pair.wire.DESCRIPTOR.fields_by_name else "parent"
    name = NAME + "c" if pair in (proto_rows.GET_CONFIG, proto_rows.DELETE_CONFIG) else "tasks/t"
    setattr(wire, field, data.draw(st.sampled_from([name, getattr(wire, field)])))
    raw_bytes = wire.SerializeToString()
    one = next(each for each in GRPC_FORM.rows if each.operation.request is pair.hub and _reads(each, pair))
    assert one.extras.request is not None
    try:
        message = one.decode_request(raw_bytes)
    except A2AError as error:
        rejected = error
    else:
        again = one.extras.request.restore(one.encode_request(message), one.extras.request.extract(raw_bytes))
        if pair is proto_rows.CREATE_CONFIG:  # whose ids are written in all three places
            assert one.decode_request(again) == message
            assert (UNKNOWN in again) == (UNKNOWN in raw_bytes)
            return
        back = pair.wire.FromString(again)
        assert back.SerializeToString(deterministic=True) == wire.SerializeToString(deterministic=True)
        return
    assert rejected.reason is Reason.INVALID_PARAMS
    assert rejected.violations[0].field in (field, "config.name")


def _reads(one: Row[str, bytes], pair: Any) -> bool:
    service = v0.DESCRIPTOR.services_by_name["A2AService"]
    return bool(service.methods_by_name[one.address.rpartition("/")[2]].input_type is pair.wire.DESCRIPTOR)
