"""Unknown content is handed on between sides of JSON, and between sides of gRPC, and lost elsewhere."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from a2a_bridge.codec import decoder, dumps, encoder
from a2a_bridge.codec.unknown import MEMBERS
from a2a_bridge.codec.values import LENGTH_WIRE, tag
from a2a_bridge.dialects import V1_0
from a2a_bridge.dialects.unmapped import messages_in
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import between

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
