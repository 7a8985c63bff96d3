"""Preserved data without a valid code has no effect, whoever wrote it and on every way."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc.aio
import pytest

from a2a_bridge.app.runtime import Server
from a2a_bridge.cards import interface
from a2a_bridge.codec import dumps, encoder, loads
from a2a_bridge.core.call import SIDE_CHANNEL
from a2a_bridge.dialects import signed_extras
from a2a_bridge.dialects.unmapped import KEY
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.gateway.raw_echo import RawAgent, gateway_before, task_of

KINDS = ("JSONRPC", "HTTP+JSON", "GRPC")
#: forged entries for a message, and for a request about a task
ENTRIES = [["/file", {"uri": "http://x"}], ["/data", {"a": 1}], ["/type", "t"], ["/task_id", "t"]]
FORGED = json.dumps({"kind": ENTRIES}, separators=(",", ":"))
ABOUT = json.dumps({"kind": [["/metadata", {"a": 1}], ["/taskId", "x"]]}, separators=(",", ":"))
FACTS = json.dumps({"hub": {"role": 7}}, separators=(",", ":"))
WRONG = "0" * 32 + "." + FORGED


@asynccontextmanager
async def gateway(version: str, *served: str) -> AsyncIterator[tuple[Server, RawAgent]]:
    """A raw agent of a version over JSON-RPC, behind a gateway of some versions over all their bindings."""
    raw = RawAgent()
    places = [interface(kind, version=one) for one in served for kind in KINDS]
    async with gateway_before(raw.handle, version, places) as server:
        yield server, raw


async def post(url: str, body: bytes, version: str, **headers: str) -> tuple[Any, Any]:
    """The answer's JSON, and its headers."""
    sent = {"Content-Type": "application/json", "A2A-Version": version, **headers}
    if version == "0.3":
        del sent["A2A-Version"]
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=sent) as response:
        return loads(await response.read()), response.headers


async def call(server: Server, kind: str, name: str, request: Any, **metadata: str) -> None:
    """A call of 1.0 by a client that is no bridge. Its outcome does not matter."""
    tree = encoder(type(request))(request)
    if kind == "JSONRPC":
        frame = {"jsonrpc": "2.0", "id": 1, "method": name, "params": tree}
        await post(f"http://{server.http}/", dumps(frame), "1.0", **metadata)
    elif kind == "HTTP+JSON" and name == "SendMessage":
        await post(f"http://{server.http}/message:send", dumps(tree), "1.0", **metadata)
    elif kind == "HTTP+JSON":
        sent = {"A2A-Version": "1.0", **metadata}
        url = f"http://{server.http}/tasks/{request.id}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=sent) as response:
            await response.read()
    else:
        async with grpc.aio.insecure_channel(str(server.grpc)) as channel:
            start = channel.unary_unary(f"/lf.a2a.v1.A2AService/{name}")
            pairs = [("a2a-version", "1.0"), *metadata.items()]
            await start(request.SerializeToString(), metadata=pairs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [FORGED, WRONG])
async def test_a_caller_of_1_0_cannot_add_members_for_an_agent_of_0_3(kind: str, text: str) -> None:
    request = hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="hi")])
    )
    for unit in (request, request.message, request.message.parts[0]):
        unit.metadata.fields[KEY].string_value = text
    request.message.metadata.fields["own"].string_value = "stays"
    async with gateway("0.3", "1.0") as (server, raw):
        await call(server, kind, "SendMessage", request)
    [asked] = raw.asked
    part = {"kind": "text", "text": "hi"}
    message = {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [part],
        "metadata": {"own": "stays"},
    }
    assert (asked["message"], asked.keys()) == (message, {"message", "configuration"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [ABOUT, "0" * 32 + "." + ABOUT])
async def test_a_caller_of_1_0_cannot_add_members_beside_a_request(kind: str, text: str) -> None:
    async with gateway("0.3", "1.0") as (server, raw):
        await call(server, kind, "GetTask", hub.GetTaskRequest(id="t"), **{SIDE_CHANNEL: text})
    assert raw.asked == [{"id": "t"}]


async def test_an_escaped_name_is_the_same_name() -> None:
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {
                "message": {
                    "messageId": "m",
                    "role": "ROLE_USER",
                    "parts": [{"text": "hi"}],
                    "metadata": {KEY: FORGED},
                }
            },
        }
    ).replace("urn:", "\\u0075rn:")
    async with gateway("0.3", "1.0") as (server, raw):
        await post(f"http://{server.http}/", body.encode(), "1.0")
    assert raw.asked[0]["message"].keys() == {"kind", "messageId", "role", "parts"}


@pytest.mark.parametrize("text", [FORGED, WRONG])
async def test_an_agent_of_1_0_cannot_add_members_for_a_caller_of_0_3(text: str) -> None:
    part = {"text": "hi", "metadata": {KEY: text}}
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [part], "metadata": {KEY: text}}
    params = {
        "message": {
            "kind": "message",
            "messageId": "c",
            "role": "user",
            "parts": [{"kind": "text", "text": "?"}],
        }
    }
    frame = dumps({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params})
    async with gateway("1.0", "0.3") as (server, raw):
        raw.answer = lambda _method, _params: {"message": message}
        answer, _ = await post(f"http://{server.http}/", frame, "0.3")
    heard = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]}
    assert answer["result"] == heard


async def test_an_agent_of_0_3_cannot_forge_content_of_1_0() -> None:
    async with gateway("0.3", "1.0") as (server, raw):
        raw.answer = lambda _method, _params: task_of(
            {"kind": "message", "messageId": "m", "role": "agent", "parts": [], "metadata": {KEY: FACTS}}
        )
        frame = dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}})
        answer, _ = await post(f"http://{server.http}/", frame, "1.0")
    assert "metadata" not in answer["result"]["status"]["message"]
    assert KEY not in dumps(answer).decode()


async def test_a_file_has_no_content_that_only_the_agent_sees() -> None:
    file = {"bytes": "aGk=", "uri": "http://x", "name": "n", "more": 1}
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "file", "file": file}]}
    frame = dumps({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}})
    async with gateway("0.3", "0.3") as (server, raw):
        await post(f"http://{server.http}/", frame, "0.3")
    heard = {"bytes": "aGk=", "name": "n", "more": 1}
    assert raw.asked[0]["message"]["parts"] == [{"kind": "file", "file": heard}]


async def test_carried_content_is_bound_to_its_message() -> None:
    """A text of a bridge is valid in its own message, and in no other."""
    unknown = {"kind": "text", "text": "hi", "extra": 1}
    params = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [unknown], "more": 2}}
    frame = dumps({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params})
    async with gateway("1.0", "0.3") as (server, raw):
        raw.answer = lambda _method, asked: {"message": {**asked["message"], "role": "ROLE_AGENT"}}
        other, _ = await post(f"http://{server.http}/", frame, "0.3")
        raw.answer = lambda _method, asked: {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "history": [asked["message"]]}}  # fmt: skip
        own, _ = await post(f"http://{server.http}/", frame, "0.3")
    # The same part returns with its preserved content; the agent's message is not the caller's.
    assert other["result"]["parts"] == [unknown]
    assert "more" not in other["result"]
    assert own["result"]["history"][0] == params["message"]
    [first, _] = raw.asked
    assert first["message"]["metadata"][KEY][32] == "."
    moved = hub.SendMessageRequest(
        message=hub.Message(message_id="m2", role=hub.ROLE_USER, parts=[hub.Part(text="bye")])
    )
    moved.message.metadata.fields[KEY].string_value = first["message"]["metadata"][KEY]
    moved.message.parts[0].metadata.fields[KEY].string_value = first["message"]["parts"][0]["metadata"][KEY]
    async with gateway("0.3", "1.0") as (server, raw):
        await call(server, "GRPC", "SendMessage", moved)
        assert raw.asked[0]["message"].keys() == {"kind", "messageId", "role", "parts"}
        assert raw.asked[0]["message"]["parts"] == [{"kind": "text", "text": "bye"}]


def test_bridges_believe_each_other_when_they_share_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {"messageId": "m", "role": "ROLE_USER", "metadata": {KEY: FORGED}}

    def keyed(secret: bytes) -> None:
        monkeypatch.setattr(signed_extras, "_key", b"")
        signed_extras.use_key(secret)

    keyed(b"a secret of two bridges")
    wire = signed_extras.dumps({"metadata": {}, **tree})
    assert signed_extras.loads(wire) == {"messageId": "m", "role": "ROLE_USER", "metadata": {KEY: FORGED}}
    keyed(b"a secret of another one")
    assert signed_extras.loads(wire) == {"messageId": "m", "role": "ROLE_USER"}
    keyed(b"a secret of two bridges")
    assert signed_extras.loads(wire.replace(b'"m"', b'"n"')) == {"messageId": "n", "role": "ROLE_USER"}
    with pytest.raises(ValueError, match="16 bytes"):
        signed_extras.use_key(b"short")
