"""Unknown content is handed on between sides of JSON, and between sides of gRPC, and lost elsewhere."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_bridge.app.runtime import connect, serve_gateway
from a2a_bridge.bindings import unknown_events
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import decoder, dumps, encoder
from a2a_bridge.codec.unknown import MEMBERS, unknown_names
from a2a_bridge.codec.values import LENGTH_WIRE, tag
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.dialects import V1_0, by_version
from a2a_bridge.dialects.boundary import UnknownEventError, response_decoder
from a2a_bridge.dialects.unmapped import messages_in
from a2a_bridge.dialects.v0_3.shapes import EVENT, RESULT
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.gateway.raw_echo import KINDS, between

JSON = ("JSONRPC", "HTTP+JSON")
LATER: Any = {"a": [1, None, "ü", {"text": ""}], "n": 9007199254740993, "metadata": {"x": []}}
REQUEST: Any = {
    "message": {
        "messageId": "m",
        "role": "ROLE_USER",
        "parts": [{"text": "hi", "later": LATER}, {"text": "there"}],
        "contextId": "c",
        "later": 1.5,
    },
    "configuration": {"returnImmediately": True, "ifGenerationMatch": "3", "later": []},
    "later": None,
}
TASK: Any = {
    "id": "t",
    "contextId": "c",
    "status": {"state": "TASK_STATE_COMPLETED", "later": False},
    "artifacts": [{"artifactId": "a", "parts": [{"text": "1"}, {"data": {"k": 1}, "later": LATER}]}],
    "generation": "9007199254740993",
    "later": {"deep": {"er": "x"}},
}
#: what came before it has an update's form
EVENTS: Any = [
    {"task": {**TASK, "status": {"state": "TASK_STATE_WORKING"}, "artifacts": []}, "later": 1},
    {
        "artifactUpdate": {
            "taskId": "t",
            "contextId": "c",
            "artifact": {"artifactId": "b", "parts": [{"text": "x"}], "later": "y"},
            "generation": "9007199254740994",
            "later": [[]],
        }
    },
    {
        "statusUpdate": {
            "taskId": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "generation": "9007199254740995",
            "later": LATER,
        },
        "later": {},
    },
]
del EVENTS[0]["task"]["artifacts"]


def known(tree: Any) -> Any:
    """The tree without the members that no version knows."""
    if isinstance(tree, list):
        return [known(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    return {name: known(value) for name, value in tree.items() if name != "later"}


#: an unknown field: 900, a text
UNKNOWN = b"\xa2\x38\x05later"


def with_unknown(cls: type[Message], tree: Any) -> bytes:
    """The message of a tree, with an unknown field in every message in it."""
    message = decoder(cls)(known(tree))
    for one in list(messages_in(message)):
        one.MergeFromString(UNKNOWN)
    return message.SerializeToString(deterministic=True)


def parsed(cls: type[Message], wire: bytes) -> bytes:
    """The bytes in the order of their fields."""
    return cls.FromString(wire).SerializeToString(deterministic=True)


def fields_in(message: Message) -> Iterator[int]:
    for one in messages_in(message):
        yield from (field.field_number for field in UnknownFieldSet(one))


@pytest.mark.parametrize("agent", JSON)
@pytest.mark.parametrize("caller", JSON)
async def test_json_to_json_unary(caller: str, agent: str) -> None:
    async with between(agent) as (client, raw):
        raw.answer = {"task": TASK, "later": 2}
        assert await client.json(caller, "SendMessage", REQUEST) == raw.answer
        assert raw.asked == [REQUEST]
        raw.answer = TASK
        asked = {"id": "t", "later": "z"}
        assert await client.json(caller, "CancelTask", asked) == TASK
        asked = asked if agent == "JSONRPC" else {"later": "z"}  # the id is in the path
        assert raw.asked[1:] == [asked]


@pytest.mark.parametrize("agent", JSON)
@pytest.mark.parametrize("caller", JSON)
async def test_json_to_json_streams(caller: str, agent: str) -> None:
    async with between(agent) as (client, raw):
        raw.answer = EVENTS
        assert await client.json(caller, "SendStreamingMessage", REQUEST) == EVENTS
        assert raw.asked == [REQUEST]


@pytest.mark.parametrize("agent", JSON)
@pytest.mark.parametrize("caller", JSON)
async def test_queries_carry_known_members_only(caller: str, agent: str) -> None:
    async with between(agent) as (client, raw):
        raw.answer = TASK
        asked = {"id": "t", "historyLength": 2, "currentGeneration": "5", "later": "z"}
        query = "?historyLength=2&currentGeneration=5&later=z"
        assert await client.json(caller, "GetTask", asked, query) == TASK
        [found] = raw.asked
        if agent == "HTTP+JSON":
            assert found == {"historyLength": "2", "currentGeneration": "5"}
        elif caller == "HTTP+JSON":
            assert found == known(asked)
        else:
            assert found == asked
        raw.answer = {"tasks": [TASK], "nextPageToken": "", "pageSize": 1, "totalSize": 1, "later": 3}
        task = {name: value for name, value in TASK.items() if name != "artifacts"}
        without_artifacts = {**raw.answer, "tasks": [task]}
        assert await client.json(caller, "ListTasks", {}) == without_artifacts


async def test_grpc_to_grpc() -> None:
    async with between("GRPC") as (client, raw):
        request = with_unknown(hub.SendMessageRequest, REQUEST)
        raw.answer = with_unknown(hub.SendMessageResponse, {"task": TASK})
        [answer] = await client.grpc("SendMessage", request)
        assert parsed(hub.SendMessageResponse, answer) == raw.answer
        assert [parsed(hub.SendMessageRequest, one) for one in raw.asked] == [request]
        raw.answer = [with_unknown(hub.StreamResponse, one) for one in EVENTS]
        answers = await client.grpc("SendStreamingMessage", request)
        assert [parsed(hub.StreamResponse, one) for one in answers] == raw.answer
        assert parsed(hub.SendMessageRequest, raw.asked[1]) == request
        request = with_unknown(hub.GetTaskRequest, {"id": "t", "currentGeneration": "5"})
        raw.answer = with_unknown(hub.Task, TASK)
        [answer] = await client.grpc("GetTask", request)
        assert parsed(hub.Task, answer) == raw.answer
        assert parsed(hub.GetTaskRequest, raw.asked[2]) == request


@pytest.mark.parametrize("caller", JSON)
async def test_json_to_grpc_carries_what_1_0_and_its_draft_know(caller: str) -> None:
    async with between("GRPC") as (client, raw):
        raw.answer = with_unknown(hub.SendMessageResponse, {"task": TASK})
        assert await client.json(caller, "SendMessage", REQUEST) == known({"task": TASK})
        asked = hub.SendMessageRequest.FromString(raw.asked[0])
        assert encoder(hub.SendMessageRequest)(asked) == known(REQUEST)
        assert not list(fields_in(asked))
        raw.answer = [with_unknown(hub.StreamResponse, one) for one in EVENTS]
        assert await client.json(caller, "SendStreamingMessage", REQUEST) == known(EVENTS)


@pytest.mark.parametrize("agent", JSON)
async def test_grpc_to_json_carries_what_1_0_and_its_draft_know(agent: str) -> None:
    async with between(agent) as (client, raw):
        request = with_unknown(hub.SendMessageRequest, REQUEST)
        raw.answer = {"task": TASK, "later": 2}
        [answer] = await client.grpc("SendMessage", request)
        response = hub.SendMessageResponse.FromString(answer)
        assert encoder(hub.SendMessageResponse)(response) == known({"task": TASK})
        assert not list(fields_in(response))
        assert raw.asked == [known(REQUEST)]
        raw.answer = EVENTS
        events = [
            hub.StreamResponse.FromString(one) for one in await client.grpc("SendStreamingMessage", request)
        ]
        assert [encoder(hub.StreamResponse)(one) for one in events] == known(EVENTS)
        assert not [number for one in events for number in fields_in(one)]


@pytest.mark.parametrize("caller", JSON)
async def test_agents_of_0_3_get_what_1_0_and_its_draft_know(caller: str) -> None:
    async with between("JSONRPC", "0.3") as (client, raw):
        raw.answer = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
        raw.answer["generation"] = 4
        answer = await client.json(caller, "SendMessage", REQUEST)
        assert answer["task"]["generation"] == "4"
        [asked] = raw.asked
        assert (asked["configuration"]["ifGenerationMatch"], known(asked)) == (3, asked)


def test_notifications_carry_them() -> None:
    form = V1_0.push
    assert form is not None
    assert [form.encode(form.decode(deepcopy(event))) for event in EVENTS] == EVENTS


@pytest.mark.parametrize("agent", JSON)
async def test_a_caller_cannot_write_members_over_grpc(agent: str) -> None:
    """The field that holds them inside of the process is removed at the wire; other unknown fields are not."""
    message = hub.SendMessageRequest.FromString(with_unknown(hub.SendMessageRequest, REQUEST))
    text = dumps({"planted": 1})
    planted = f"{tag(MEMBERS, LENGTH_WIRE)}{chr(len(text))}".encode("latin-1") + text
    for one in list(messages_in(message)):
        one.MergeFromString(planted)
    async with between(agent) as (client, raw):
        raw.answer = {"task": TASK}
        await client.grpc("SendMessage", message.SerializeToString())
        assert raw.asked == [known(REQUEST)]
    async with between("GRPC") as (client, raw):
        raw.answer = decoder(hub.SendMessageResponse)({"task": known(TASK)}).SerializeToString()
        await client.grpc("SendMessage", message.SerializeToString())
        assert parsed(hub.SendMessageRequest, raw.asked[0]) == with_unknown(hub.SendMessageRequest, REQUEST)


async def test_the_values_of_unknown_members_count() -> None:
    async with between("JSONRPC") as (client, raw):
        request = deepcopy(REQUEST)
        request["message"]["later"] = [0] * 100_001
        with pytest.raises(AssertionError, match="holds more than 100000 values"):
            await client.json("JSONRPC", "SendMessage", request)
        assert not raw.asked


# --- events without a member that 1.0 knows ---

SEND: Any = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
UPDATE: Any = {"messageUpdate": {"taskId": "t", "delta": "hel"}}
PLACE: Any = {"taskId": "t", "contextId": "c"}
WITH_UNKNOWN: list[Any] = [
    {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}},
    UPDATE,
    {"artifactUpdate": {**PLACE, "artifact": {"artifactId": "a", "parts": [{"text": "hello"}]}}},
    UPDATE,
    {"statusUpdate": {**PLACE, "status": {"state": "TASK_STATE_COMPLETED"}}},
]
WORDS = {
    "task": "task",
    "artifactUpdate": "artifact_update",
    "statusUpdate": "status_update",
    "messageUpdate": None,
}
#: field 9 of a StreamResponse, with a text
UPDATE_BYTES = b"J\x03hel"


def events_for(kind: str) -> list[Any]:
    if kind != "GRPC":
        return WITH_UNKNOWN
    read = decoder(hub.StreamResponse)
    return [UPDATE_BYTES if one is UPDATE else read(one).SerializeToString() for one in WITH_UNKNOWN]


@pytest.mark.parametrize("agent", KINDS)
@pytest.mark.parametrize("caller", KINDS)
@pytest.mark.parametrize("operation", ["SendStreamingMessage", "SubscribeToTask"])
async def test_an_unknown_event_does_not_end_a_stream(
    caller: str, agent: str, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    same_form = (caller == "GRPC") is (agent == "GRPC")
    request = SEND if operation == "SendStreamingMessage" else {"id": "t"}
    unknown_events._noted.clear()
    async with between(agent) as (peer, raw):
        raw.answer = events_for(agent)
        for _ in range(2):
            if caller == "GRPC":
                wire = decoder(hub.SendMessageRequest if request is SEND else hub.SubscribeToTaskRequest)(
                    request
                ).SerializeToString()
                found: list[Any] = await peer.grpc(operation, wire)
                kinds = [hub.StreamResponse.FromString(one).WhichOneof("payload") for one in found]
                handed_on = [one == UPDATE_BYTES for one in found]
            else:
                found = await peer.json(caller, operation, request)
                kinds = [WORDS[next(iter(one))] for one in found]
                handed_on = [one == UPDATE for one in found]
            known = ["task", "artifact_update", "status_update"]
            assert [one for one in kinds if one is not None] == known
            assert [at for at, one in enumerate(handed_on) if one] == ([1, 3] if same_form else [])
    name = "field 9" if agent == "GRPC" else "messageUpdate"
    assert caplog.text.count(f"({name}) is not known") == (0 if same_form else 1)


def odd_fields() -> list[bytes]:
    """Fields of a peer with the number of kept members, in the other wire types."""
    found = {0: "\x80\x80\x80\x80\x01", 1: "\0" * 8, 5: "\1" * 4, 3: f"\x08\x01{tag(MEMBERS, 4)}"}
    return [f"{tag(MEMBERS, wire_type)}{content}".encode("latin-1") for wire_type, content in found.items()]


@pytest.mark.parametrize("caller", KINDS)
async def test_a_field_with_the_number_of_kept_members_is_no_member(caller: str) -> None:
    async with between("GRPC") as (peer, raw):
        for odd in odd_fields():
            raw.answer = [odd if one == UPDATE_BYTES else one + odd for one in events_for("GRPC")]
            if caller == "GRPC":
                wire = decoder(hub.SendMessageRequest)(SEND).SerializeToString()
                found: list[Any] = await peer.grpc("SendStreamingMessage", wire)
                kinds = [hub.StreamResponse.FromString(one).WhichOneof("payload") for one in found]
            else:
                found = await peer.json(caller, "SendStreamingMessage", SEND)
                kinds = [WORDS[next(iter(one))] for one in found]
            assert [one for one in kinds if one is not None] == ["task", "artifact_update", "status_update"]


def test_a_message_of_a_peer_with_such_a_field_is_written() -> None:
    """Also where another message keeps members, so that all are searched."""
    for odd in odd_fields():
        known = decoder(hub.Message, keeps=True)(
            {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x", "later": 1}]}
        )
        message = hub.Message.FromString(known.SerializeToString() + odd)
        assert encoder(hub.Message, keeps=True)(message)["parts"] == [{"text": "x", "later": 1}]
        assert unknown_names(message) == f"field {MEMBERS}"


@pytest.mark.parametrize("agent", KINDS)
async def test_an_unknown_answer_that_is_no_stream_is_an_error(agent: str) -> None:
    async with between(agent) as (peer, raw):
        raw.answer = UPDATE_BYTES if agent == "GRPC" else UPDATE
        with pytest.raises(grpc.aio.AioRpcError, match="holds none of its members"):
            await peer.grpc("SendMessage", decoder(hub.SendMessageRequest)(SEND).SerializeToString())


@pytest.mark.parametrize("agent", KINDS)
async def test_the_client_leaves_unknown_events_out(agent: str, caplog: pytest.LogCaptureFixture) -> None:
    unknown_events._noted.clear()
    async with between(agent) as (raw_caller, raw):
        raw.answer = events_for(agent)
        async with connect(interface(agent, raw_caller._urls[agent])) as peer:
            kinds = [event.WhichOneof("payload") async for event in peer.stream("hi")]
    assert kinds == ["task", "artifact_update", "status_update"]
    assert caplog.text.count("is left out") == 1


@pytest.mark.parametrize("agent", KINDS)
@pytest.mark.parametrize(
    "inner", [("JSONRPC", "1.0"), ("GRPC", "1.0"), ("HTTP+JSON", "0.3"), ("GRPC", "0.3")]
)
async def test_unknown_events_are_numbered_between_bridges(agent: str, inner: tuple[str, str]) -> None:
    """Also where one of them cannot hand the content on."""
    binding, version = inner
    dialect = by_version(version)
    assert dialect is not None
    async with between(agent, serves=[interface(binding, version=version)]) as (first, raw):
        raw.answer = events_for(agent)
        there = interface(binding, first._urls[binding], version=version)
        card = hub.AgentCard(name="g", capabilities=hub.AgentCapabilities(streaming=True))
        card.capabilities.extensions.add(uri=RESUME_URI)
        async with (
            serve_gateway(card, [Candidate(there, dialect)], [interface("HTTP+JSON")]) as second,
            connect(second.card) as peer,
        ):
            found = [event async for event in peer.events(decoder(hub.SendMessageRequest)(SEND))]
    assert [event.message.WhichOneof("payload") for event in found] == list(filter(None, WORDS.values()))
    numbers = [int(event.id.rpartition("-")[2]) for event in found]
    assert [one - numbers[0] for one in numbers] == [0, 2, 4]


@each(
    "tree",
    [{"messageUpdate": {}}, {"kind": "message-update", "x": 1}, {"kind": None, "x": 1}, {"kind": 5}, {"kind": ["a"]}, {}],
)  # fmt: skip
def test_an_event_of_0_3_without_a_known_kind_is_an_unknown_event(tree: Any) -> None:
    with pytest.raises(UnknownEventError):
        response_decoder(hub.StreamResponse, EVENT)(tree)
    with pytest.raises(A2AError) as caught:
        response_decoder(hub.SendMessageResponse, RESULT)(tree)
    assert (type(caught.value), caught.value.reason) == (A2AError, Reason.INVALID_AGENT_RESPONSE)
