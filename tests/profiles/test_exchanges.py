"""Exchanges of single SDKs, over sockets: each shows a quirk of a profile, or the handling for all peers."""

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.dialects import KNOWN, V0_3, V1_0
from a2a_bridge.pb import a2a_v1 as v0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import answering, yielding
from tests.transports import grpc_scene
from tests.transports.http_peer import http, peering
from tests.transports.http_scene import Scripted, ask, dialling, frame, hosting, request

PNG = b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"
JSON = "application/json"


def with_a_file(call: Call[Any, Any]) -> Any:
    part = hub.Part(raw=PNG, media_type="image/png", filename="a.png")
    message = hub.Message(message_id="m-2", role=hub.ROLE_AGENT, parts=[part])
    if call.operation is ops.GET_TASK:
        status = hub.TaskStatus(state=hub.TASK_STATE_COMPLETED, message=message)
        return hub.Task(id="t", context_id="c", status=status)
    return hub.SendMessageResponse(message=message)


def answering_with_a_file() -> Scripted:
    async def unary(call: Call[Any, Any]) -> Any:
        return with_a_file(call)

    return Scripted(on_unary=unary)


# --- files ---
@pytest.mark.parametrize(
    ("headers", "written"),
    [
        ({"User_Agent": "python-httpx/0.28.1"}, b64encode(PNG)),
        ({"User_Agent": "Java-http-client/21.0.2"}, b64encode(PNG)),
        ({"User_Agent": "node"}, PNG),
        ({"User_Agent": "Go-http-client/1.1", "A2A_Version": "0.3"}, b64encode(PNG)),
        ({}, PNG),
    ],
)
async def test_http_json_callers_get_files_in_the_variant_of_their_profile(
    headers: dict[str, str], written: bytes
) -> None:
    service = answering_with_a_file()
    file = {"file": {"fileWithBytes": b64encode(written).decode(), "mimeType": "image/png"}}
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [file]}}
    async with hosting(service, dialects=KNOWN) as host:
        raw = request("POST", "/v1/message:send", json.dumps(body), version="", **headers)
        sent = (await ask(host, raw)).json()
        task = (await ask(host, request("GET", "/v1/tasks/t", version="", **headers))).json()
    assert service.calls[0].request.message.parts[0].raw == PNG
    for content in (sent["message"]["content"], task["status"]["message"]["content"]):
        assert b64decode(content[0]["file"]["fileWithBytes"]) == written


@pytest.mark.parametrize("written", [PNG, b64encode(PNG)])
async def test_a_grpc_caller_without_a_profile_gets_the_variant_that_it_sent(written: bytes) -> None:
    service = answering_with_a_file()
    part = v0.Part(file=v0.FilePart(file_with_bytes=written, mime_type="image/png"))
    wire = v0.SendMessageRequest(
        request=v0.Message(message_id="m", role=v0.ROLE_USER, content=[part])
    ).SerializeToString()
    # A caller that identifies itself as a bridge is no SDK, and has no quirk.
    agent = ("grpc.primary_user_agent", "a2a-bridge")
    async with (
        grpc_scene.hosting(service, dialects=KNOWN) as host,
        grpc_scene.channel(host.address, [agent]) as raw,
    ):
        answer = await raw.unary_unary("/a2a.v1.A2AService/SendMessage")(wire)
    assert service.calls[0].request.message.parts[0].raw == PNG
    assert v0.SendMessageResponse.FromString(answer).msg.content[0].file.file_with_bytes == written


RESULT = b'{"message":{"messageId":"m","role":"ROLE_AGENT","content":[{"file":{"fileWithBytes":"%s","mimeType":"image/png"}}]}}'
FILE = hub.SendMessageRequest(
    message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(raw=PNG, media_type="image/png")])
)


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (DialOptions(), b64encode(PNG)),
        (DialOptions(peer="a2a-js-0.3"), PNG),
        (DialOptions(peer="a2a-java-0.3"), b64encode(PNG)),
        (DialOptions(peer="a2a-go-2"), b64encode(PNG)),
        (DialOptions(peer="a2a-go-2-grpc"), b64encode(PNG)),
        (DialOptions(peer="a2a-go-2.3-grpc"), PNG),
        (DialOptions(base64_files=False), PNG),
        (DialOptions(peer="a2a-js-0.3", base64_files=True), b64encode(PNG)),
    ],
)
async def test_agents_get_files_as_the_options_or_their_profile_say(
    options: DialOptions, written: bytes
) -> None:
    # Whatever the profile, bytes that are not base64 are content.
    answers = {b64encode(b"no base64!"): b"no base64!", b64encode(written): PNG}
    for answered, read in answers.items():
        async with (
            peering(http(RESULT % answered)) as peer,
            dialling(peer.url, "HTTP+JSON", options, dialect=V0_3) as near,
        ):
            answer = await near.unary(Call(ops.SEND_MESSAGE, FILE, CallContext()))
        sent = json.loads(peer.requests[0][2])["message"]["content"][0]["file"]["fileWithBytes"]
        assert b64decode(sent) == written
        assert answer.message.parts[0].raw == read


async def test_bridges_pass_files_to_each_other_with_any_content() -> None:
    service = Scripted()
    contents = [b"test", b"deadbeefdeadbeef", PNG, b"\xff\xfe", b64encode(PNG)]
    parts = [
        hub.Part(raw=content, media_type=media)
        for content in contents
        for media in ("text/plain", "", "image/png")
    ]
    message = hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=parts))
    async with (
        hosting(service, dialects=KNOWN) as host,
        grpc_scene.hosting(service, dialects=KNOWN) as other,
        dialling(f"http://{host.address}", "HTTP+JSON", dialect=V0_3) as near,
        grpc_scene.dialling(other.address, dialect=V0_3) as far,
    ):
        await near.unary(Call(ops.SEND_MESSAGE, message, CallContext()))
        await far.send_message(message)
    for call in service.calls:
        assert [part.raw for part in call.request.message.parts] == [part.raw for part in parts]


# --- errors ---

DETAILS = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"field": "f"}]}]


@pytest.mark.parametrize(
    ("headers", "version", "data"),
    [
        ({"User_Agent": "Go-http-client/1.1"}, "", dict),
        ({"User_Agent": "Go-http-client/1.1"}, "0.3", list),
        ({"User_Agent": "python-httpx/0.28"}, "", dict),
        ({"User_Agent": "python-httpx/0.28"}, "0.3", list),
        ({}, "", dict),
    ],
)
async def test_error_data_of_0_3_has_a_type_that_the_caller_reads(
    headers: dict[str, str], version: str, data: type
) -> None:
    params = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": []}}
    async with hosting(
        Scripted(
            on_unary=answering(A2AError(Reason.INVALID_PARAMS, "no", violations=[Violation("f", "is odd")]))
        ),
        dialects=KNOWN,
    ) as host:
        raw = request("POST", "/", frame("message/send", params), version=version, **headers)
        error = (await ask(host, raw)).json()["error"]
        assert type(error["data"]) is data
        assert error["code"] == -32602
        # Our own client still reads it.
        async with dialling(f"http://{host.address}", "JSONRPC", dialect=V0_3) as near:
            with pytest.raises(A2AError) as caught:
                await near.unary(Call(ops.SEND_MESSAGE, FILE, CallContext()))
    assert [one.field for one in caught.value.violations] == ["f"]


@pytest.mark.parametrize(
    ("version", "agent", "data", "expected"),
    [
        ("", "Go-http-client/1.1", "text", {"value": "text"}),
        ("", "Go-http-client/1.1", {"a": 1}, {"a": 1}),
        ("0.3", "Go-http-client/1.1", {"a": 1}, [{"a": 1}]),
        ("", "curl/8", "text", "text"),
        ("", "curl/8", [1], [1]),
    ],
)
async def test_error_data_of_an_agent_of_0_3_changes_only_for_callers_that_cannot_read_it(
    version: str, agent: str, data: Any, expected: Any
) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "m", "data": data}})
    async with (
        peering(http(body.encode())) as peer,
        dialling(peer.url, "JSONRPC", dialect=V0_3) as near,
        hosting(near, dialects=KNOWN) as host,
    ):
        raw = request("POST", "/", frame("tasks/get", {"id": "t"}), version=version, User_Agent=agent)
        error = (await ask(host, raw)).json()["error"]
    found = error["data"]
    if isinstance(expected, list) and "@type" in str(found):
        found = [one["value"] for one in found]
    assert (error["code"], found) == (-32001, expected)


# --- lists, history, waiting ---
async def test_a_page_size_of_0_is_none_over_grpc() -> None:
    service = Scripted()
    async with grpc_scene.hosting(service) as host, grpc_scene.channel(host.address) as raw:
        wire = hub.ListTasksRequest(page_size=0, context_id="c").SerializeToString()
        await raw.unary_unary("/lf.a2a.v1.A2AService/ListTasks")(wire)
    [call] = service.calls
    assert not call.request.HasField("page_size")
    assert call.request.context_id == "c"


@pytest.mark.parametrize(
    ("agent", "given"),
    [("Go-http-client/1.1", True), ("python-httpx/0.28", False), ("Java-http-client/21", False), ("", False)],
)
async def test_a_history_length_of_0_is_none_in_tasks_get_of_0_3_but_for_go(agent: str, given: bool) -> None:
    service = Scripted()
    async with hosting(service, dialects=KNOWN) as host:
        for length in (0, 2):
            params = {"id": "t", "historyLength": length}
            await ask(host, request("POST", "/", frame("tasks/get", params), version="", User_Agent=agent))
        await ask(host, request("POST", "/", frame("GetTask", {"id": "t", "historyLength": 0})))
    lengths = [
        (call.request.HasField("history_length"), call.request.history_length) for call in service.calls
    ]
    assert lengths == [(given, 0), (True, 2), (True, 0)]


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize(
    "given", [None, hub.SendMessageConfiguration(), hub.SendMessageConfiguration(history_length=2)]
)
async def test_agents_of_0_3_get_blocking_from_a_waiting_caller(kind: str, given: Any) -> None:
    message = hub.SendMessageRequest(message=FILE.message, configuration=given)
    async with peering(http(b"{}")) as peer, dialling(peer.url, kind, dialect=V0_3) as near:
        with pytest.raises(A2AError):
            await near.unary(Call(ops.SEND_MESSAGE, message, CallContext()))
    tree = json.loads(peer.requests[0][2])
    assert (tree.get("params") or tree)["configuration"]["blocking"] is True


# --- streams ---
@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize(
    ("agent", "version", "size", "short"),
    [
        ("Java-http-client/21", "1.0", 40_000, True),
        ("Java-http-client/21", "1.0", 10_000, False),
        ("Java-http-client/21", "", 40_000, False),
        ("python-httpx/0.28", "1.0", 40_000, False),
    ],
)
async def test_a_caller_that_drops_long_lines_gets_the_first_task_without_its_history(
    kind: str, agent: str, version: str, size: int, short: bool
) -> None:
    message = hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text="x" * size)])
    task = hub.Task(
        id="t", context_id="c", history=[message], status=hub.TaskStatus(state=hub.TASK_STATE_COMPLETED)
    )

    dialects = [V1_0 if version else V0_3]
    async with hosting(
        Scripted(on_stream=yielding(hub.StreamResponse(task=task))), dialects=dialects
    ) as host:
        if kind == "JSONRPC":
            method = "SubscribeToTask" if version else "tasks/resubscribe"
            raw = request("POST", "/", frame(method, {"id": "t"}), version=version, User_Agent=agent)
        else:
            path = f"{'' if version else '/v1'}/tasks/t:subscribe"
            raw = request("POST", path, "{}", version=version, User_Agent=agent)
        answer = await ask(host, raw)
    assert answer.status == 200
    [line] = [line for line in answer.body.split(b"\n") if line.startswith(b"data:")]
    assert (len(line) < 1000) == short
    assert b'"t"' in line
    assert len(task.history) == 1, "the event belongs to others, too"
