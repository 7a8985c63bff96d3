"""The OpenAPI documents of the HTTP+JSON binding: valid, complete, served, and true of the traffic."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from a2a_bridge import Run, agent, connect, interface, serve
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.bindings.frames import Frame
from a2a_bridge.codec import dumps, loads
from a2a_bridge.core.errors import A2AError
from a2a_bridge.dialects import HTTP_JSON, KNOWN, by_version
from a2a_bridge.dialects.openapi import openapi
from a2a_bridge.ext import hub
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE

WITH_HTTP = [one for one in KNOWN if one.form(HTTP_JSON) is not None]
VERSIONS = ["1.0", "0.3", "0.2.5"]


def document_of(version: str) -> Any:
    dialect = by_version(version)
    assert dialect is not None
    # As a client gets it.
    return loads(dumps(openapi(dialect)))


def test_requests_say_what_the_server_requires() -> None:
    """A client that is made of the document sends nothing that is rejected for its shape."""
    found = document_of("1.0")["components"]["schemas"]
    message = found["Message"]["properties"]
    assert message["messageId"] == {"type": "string", "minLength": 1}
    assert message["parts"]["minItems"] == 1
    assert sorted(message["role"]["enum"]) == ["ROLE_AGENT", "ROLE_USER"]
    generation = found["SendMessageConfiguration"]["properties"]["ifGenerationMatch"]
    assert re.fullmatch(generation["pattern"], "12")
    assert not re.fullmatch(generation["pattern"], "x")
    # The last page of a list has no token.
    assert found["ListTasksResponse"]["properties"]["nextPageToken"] == {"type": "string"}


class Traffic:
    """Compares requests and responses with a document."""

    def __init__(self, version: str) -> None:
        self.document = document_of(version)
        self.operations: list[str] = []
        self._last: Any = None

    def schema(self, found: Any) -> Draft202012Validator:
        return Draft202012Validator({**found, "components": self.document["components"]})

    def request(self, method: str, target: str, body: bytes) -> None:
        path, _, query = target.partition("?")
        for template, operations in self.document["paths"].items():
            pattern = re.sub(r"\\\{\w+\\\}", "[^/:]+", re.escape(template))
            if re.fullmatch(pattern, path) and method.lower() in operations:
                self._last = operations[method.lower()]
                break
        else:
            raise AssertionError(f"{method} {path} is not in the document")
        self.operations.append(self._last["operationId"])
        known = {one["name"] for one in self._last["parameters"] if one["in"] == "query"}
        assert {pair.partition("=")[0] for pair in query.split("&") if pair} <= known
        if "requestBody" in self._last:
            content = self._last["requestBody"]["content"]["application/json"]
            self.schema(content["schema"]).validate(loads(body) if body else {})
        else:
            assert not body

    def response(self, status: int, body: bytes, *, event: bool = False) -> None:
        if event:
            reference = {"$ref": "#/components/schemas/StreamResponse"}
            for line in body.splitlines():
                if line.startswith(b"data:"):
                    self.schema(reference).validate(loads(line[5:]))
            return
        answer = self._last["responses"]["200" if status < 400 else "default"]
        content = answer["content"]["application/json"]
        self.schema(content["schema"]).validate(loads(body) if body else {})

    def observe(self, frame: Frame) -> None:
        if frame.sent:
            method, target, _ = frame.head.split(" ")
            self.request(method, target, frame.body)
        elif frame.head:
            self.status = int(frame.head.split(" ")[1])
            self.streams = any("event-stream" in value for _, value in frame.headers)
            if frame.body:
                self.response(self.status, frame.body, event=self.streams)
        elif frame.body:
            self.response(self.status, frame.body, event=self.streams)


def rich() -> Any:
    @agent(task=True, push_notifications=True, extended_card=hub.AgentCard(name="more", version="2"))
    async def everything(run: Run) -> Any:
        yield run.artifact("text", {"data": [1, None, 0.5]}, b"\x00\xff", name="a")
        yield hub.Part(url="https://example.com/x.png", media_type="image/png", filename="x.png")

    return everything


@each("dialect", WITH_HTTP)
def test_it_is_valid_and_has_every_rule(dialect: Any) -> None:
    document = document_of(dialect.version)
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    operations = [one for path in document["paths"].values() for one in path.values()]
    ids = [one["operationId"] for one in operations]
    assert len(ids) == len(set(ids))
    rules = {
        (rule.method.lower(), rule.template)
        for row in dialect.form(HTTP_JSON).rows
        for rule in row.address.rules
    }
    there = {(method, path) for path, methods in document["paths"].items() for method in methods}
    # 0.x has no such operation in its proto.
    assert rules - there == (set() if dialect.declares else {("get", "/v1/tasks")})
    assert there <= rules


def test_versions_without_the_binding_have_none() -> None:
    assert [one.version for one in KNOWN if openapi(one) is None] == ["0.1"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_traffic_of_our_client_is_as_documented(version: str) -> None:
    traffic = Traffic(version)
    options = DialOptions(frame_observer=traffic.observe)
    configs = "http://example.com/hook"
    async with (
        serve(rich(), [interface("HTTP+JSON", version=version)]) as server,
        connect(server.card, version=version, binding="HTTP+JSON", options=options) as peer,
    ):
        reply = await peer.send("hello", {"any": ["thing"]}, b"\x01")
        task = reply.task
        assert task is not None
        async for _ in peer.stream("hello"):
            pass
        await peer.get_task(hub.GetTaskRequest(id=task.id, history_length=1))
        if version == "1.0":
            await peer.list_tasks(hub.ListTasksRequest(page_size=5, status=hub.TASK_STATE_COMPLETED))
        await peer.create_task_push_notification_config(
            hub.TaskPushNotificationConfig(task_id=task.id, id="c", url=configs)
        )
        await peer.get_task_push_notification_config(
            hub.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c")
        )
        await peer.list_task_push_notification_configs(
            hub.ListTaskPushNotificationConfigsRequest(task_id=task.id)
        )
        await peer.delete_task_push_notification_config(
            hub.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c")
        )
        await peer.get_extended_agent_card()
        for wrong in (
            peer.cancel_task(hub.CancelTaskRequest(id=task.id)),
            peer.get_task(hub.GetTaskRequest(id="no")),
        ):
            with pytest.raises(A2AError):
                await wrong
    assert len(set(traffic.operations)) == (10 if version == "1.0" else 9)


@pytest.mark.sdk
async def test_the_traffic_of_the_sdks_client_is_as_documented() -> None:
    traffic = Traffic("1.0")

    async def sent(request: httpx.Request) -> None:
        traffic.request(request.method, request.url.raw_path.decode(), request.content)

    async def received(response: httpx.Response) -> None:
        if "event-stream" not in response.headers["content-type"]:
            traffic.response(response.status_code, await response.aread())

    hooks = {"request": [sent], "response": [received]}
    async with (
        serve(rich(), [interface("HTTP+JSON")]) as server,
        httpx.AsyncClient(timeout=PATIENCE, event_hooks=hooks) as http,
    ):
        card = a2a_pb2.AgentCard.FromString(server.card.SerializeToString())
        config = ClientConfig(supported_protocol_bindings=["HTTP+JSON"], httpx_client=http, streaming=False)
        async with ClientFactory(config).create(card) as sdk:
            message = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text="hi")])
            [answer] = [one async for one in sdk.send_message(a2a_pb2.SendMessageRequest(message=message))]
            await sdk.get_task(a2a_pb2.GetTaskRequest(id=answer.task.id, history_length=2))
            await sdk.list_tasks(a2a_pb2.ListTasksRequest(page_size=5, include_artifacts=True))
    assert traffic.operations == ["SendMessage", "GetTask", "ListTasks"]


def wrong_bodies() -> Iterator[Any]:
    yield {}
    yield {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{}]}}
    yield {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a", "raw": ""}]}}
    yield {"message": {"messageId": "m", "role": "user", "parts": [{"text": "a"}]}}
    yield {"message": {"messageId": 1, "role": "ROLE_USER", "parts": [{"text": "a"}]}}
    yield {"message": {"messageId": "m", "role": "ROLE_USER", "parts": {"text": "a"}}}
    yield {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]},
        "configuration": {"historyLength": 2**31},
    }


async def test_what_the_document_forbids_is_rejected() -> None:
    traffic = Traffic("1.0")
    validator = traffic.schema({"$ref": "#/components/schemas/SendMessageRequest"})
    async with (
        serve(rich(), [interface("HTTP+JSON")]) as server,
        httpx.AsyncClient(timeout=PATIENCE, headers={"A2A-Version": "1.0"}) as http,
    ):
        for body in wrong_bodies():
            assert not validator.is_valid(body)
            answer = await http.post(f"http://{server.http}/message:send", json=body)
            assert answer.status_code == 400, (body, answer.text)


#: what a document cannot say: the body of a message is valid, or the state of a task allows the call; null is
#: accepted in JSON of protobuf; an id of a task may end with ":cancel"
NOT_SAID = "positive_data_acceptance,negative_data_rejection,allow_header_conformance"


@pytest.mark.process
@pytest.mark.parametrize("version", ["1.0", "0.3"])  # 0.2.5 differs from 0.3 in names
async def test_generated_requests_get_documented_responses(version: str, tmp_path: Path) -> None:
    """Schemathesis makes valid and wrong requests of the document, also sequences of calls."""
    async with serve(rich(), [interface("HTTP+JSON", version=version)]) as server:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"http://{server.http}/openapi.json"),
            *("--seed=1", "--max-examples=3", "--no-color", f"--exclude-checks={NOT_SAID}"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=tmp_path,  # for its files
        )
        try:
            async with asyncio.timeout(PATIENCE):
                told, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, told.decode()
    tested = re.search(rb"Tested: (\d+)", told)
    assert tested
    assert int(tested[1]) == sum(map(len, document_of(version)["paths"].values()))


async def test_it_is_below_each_mount_of_the_binding() -> None:
    bindings = [interface("HTTP+JSON", "/a2a", version=one) for one in VERSIONS]
    bindings.append(interface("JSONRPC", "/rpc"))
    async with (
        serve(rich(), bindings) as server,
        httpx.AsyncClient(timeout=PATIENCE, base_url=f"http://{server.http}") as http,
    ):
        newest = await http.get("/a2a/openapi.json")
        older = await http.get("/a2a/openapi.json?version=0.3")
        unknown = await http.get("/a2a/openapi.json?version=7")
        elsewhere = await http.get("/openapi.json")
        posted = await http.post("/a2a/openapi.json", json={})
        head = await http.head("/a2a/openapi.json")
        wrong_head = await http.head("/a2a/openapi.json?version=7")
    assert newest.json() == document_of("1.0")
    assert older.json() == document_of("0.3")
    assert (head.status_code, wrong_head.status_code, head.content) == (200, 422, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == newest.headers[name]
    assert (unknown.status_code, elsewhere.status_code, posted.status_code) == (422, 404, 404)
    assert "version: is none of the versions here: 1.0, 0.3, 0.2.5" in unknown.text


@each("version", VERSIONS)
def test_generators_of_clients_have_a_name_for_each_schema(version: str) -> None:
    """They make clashing classes of schemas without one, and faulty code of a request with two media types."""
    document = document_of(version)
    named = document["components"]["schemas"]
    for path in document["paths"].values():
        for one in path.values():
            requests = one["requestBody"]["content"] if "requestBody" in one else {}
            assert list(requests) in ([], ["application/json"])
            contents = [requests, *(answer.get("content", {}) for answer in one["responses"].values())]
            for schema in (found["schema"] for content in contents for found in content.values() if found):
                assert schema == {"type": "object"} or schema["$ref"].rpartition("/")[2] in named
    members = {"tenant", "metadata"} if version == "1.0" else {"name"}
    assert set(named["CancelTaskBody"]["properties"]) == members
    error = named["Error"]["properties"]
    assert set(error["error"]["properties"]) == {"code", "status", "message", "details"}
    assert set(error) == ({"error"} if version == "1.0" else {"error", "type", "code", "message"})
