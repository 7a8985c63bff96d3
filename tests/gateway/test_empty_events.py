"""Events without a member that 1.0 knows."""

from typing import Any

import grpc.aio
import pytest

from a2a_bridge.app.runtime import connect, serve_gateway
from a2a_bridge.bindings import unknown_events
from a2a_bridge.cards import Candidate, interface
from a2a_bridge.codec import decoder, encoder
from a2a_bridge.codec.unknown import MEMBERS, unknown_names
from a2a_bridge.codec.values import tag
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.core.resume import RESUME_URI
from a2a_bridge.dialects import by_version
from a2a_bridge.dialects.boundary import UnknownEventError, response_decoder
from a2a_bridge.dialects.v0_3.shapes import EVENT, RESULT
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.gateway.raw_echo import KINDS, between

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
