"""The server sides of JSON-RPC and HTTP+JSON: one scripted service, both variants, the same meaning."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason, Violation
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import answering
from a2a_bridge_transports._http.host import HttpHost
from tests.transports.http_scene import (
    BINDINGS,
    MESSAGE,
    Answer,
    Scripted,
    ask,
    frame,
    hosting,
    reply,
    request,
)


@dataclass(frozen=True)
class Variant:
    """The requests of one binding for the same operations."""

    kind: str

    def send(self, message: Any = MESSAGE, version: str = "1.0", **headers: str) -> bytes:
        params = {"message": message} if not isinstance(message, (bytes, str)) else message
        return self.raw(params, version=version, **headers)

    def raw(self, params: Any, version: str = "1.0", query: str = "", **headers: str) -> bytes:
        """SendMessage with any params, or with any bytes in their place."""
        if isinstance(params, bytes):
            body = params
            if self.kind == "JSONRPC":
                body = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":%b}' % params
        else:
            body = frame("SendMessage", params) if self.kind == "JSONRPC" else json.dumps(params).encode()
        path = "/" if self.kind == "JSONRPC" else "/message:send"
        return request("POST", path + query, body, version=version, **headers)

    def get(self, id_: str, **headers: str) -> bytes:
        if self.kind == "JSONRPC":
            return request("POST", "/", frame("GetTask", {"id": id_}), **headers)
        return request("GET", f"/tasks/{id_}", **headers)

    def result(self, answer: Answer) -> Any:
        assert answer.status == 200, answer
        tree = answer.json()
        return tree["result"] if self.kind == "JSONRPC" else tree


both = pytest.mark.parametrize("binding", [Variant(kind) for kind in BINDINGS], ids=BINDINGS)


@both
async def test_a_message(binding: Variant) -> None:
    service = Scripted()
    async with hosting(service) as host:
        answer = await ask(host, binding.send())
    assert answer.headers["content-type"] == "application/json"
    assert binding.result(answer) == {
        "message": {"messageId": "m-2", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
    }
    [call] = service.calls
    assert (call.operation.name, call.request.message.parts[0].text) == ("SendMessage", "hello")
    assert call.context.parameters["a2a-version"] == "1.0"


SEND: Any = {"message": MESSAGE}
#: of requests that are taken
TAKEN: list[dict[str, str]] = [
    *({"version": one} for one in ("1.0", "1.0.1", " 1.0 ", "01.0")),
    {"version": "", "query": "?a2a-version=1.0"},
    *({"Content_Type": one} for one in ("application/a2a+json", "application/json;charset=utf-8", "")),
]
BAD_VERSIONS = ("", "0.3", "1.7", "2.0", "x", "1", "1.0.1.1", "1.0.x")
BAD_JSON = (b"{", b'{"a":NaN}', b"{} {}", b"[" * 50_000, b'{"a":' * 50_000, b'"\xff"', b'{"a":1e}', b"\xff")
FORMS = ("text/plain", "application/x-www-form-urlencoded")
#: content and headers of requests that are not; the reason, and the status over JSON-RPC and HTTP+JSON
REJECTED: list[tuple[Any, dict[str, str], str, int, int]] = [
    *((SEND, {"version": one}, "VERSION_NOT_SUPPORTED", 200, 400) for one in BAD_VERSIONS),
    *((one, {}, "PARSE_ERROR", 200, 400) for one in BAD_JSON),
    *((SEND, {"Content_Type": one}, "CONTENT_TYPE_NOT_SUPPORTED", 415, 415) for one in FORMS),
    # Bad JSON comes before a bad version.
    (b"{", {"version": "9.9"}, "PARSE_ERROR", 200, 400),
    ({}, {"version": "9.9"}, "VERSION_NOT_SUPPORTED", 200, 400),
]


@both
async def test_requests_that_are_taken_and_those_that_are_not(binding: Variant) -> None:
    service = Scripted()
    async with hosting(service) as host:
        for content, how, reason, rpc, rest in REJECTED:
            answer = await ask(host, binding.raw(content, **how))
            assert answer.reason == reason, (content, how)
            assert answer.status == (rpc if binding.kind == "JSONRPC" else rest), (content, how)
        assert not service.calls
        for how in TAKEN:
            assert (await ask(host, binding.raw(SEND, **how))).status == 200, how


@both
async def test_a_lenient_host_uses_the_version_of_the_address(binding: Variant) -> None:
    async with hosting(Scripted(), options=HostOptions(lenient_versions=True)) as host:
        binding.result(await ask(host, binding.send(version="")))
        wrong = await ask(host, binding.send(version="0.3"))
        assert wrong.reason == "VERSION_NOT_SUPPORTED"


@both
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"message": 5}, "message"),
        ({"message": {**MESSAGE, "role": "NOBODY"}}, "message.role"),
        ({"message": {**MESSAGE, "parts": "x"}}, "message.parts"),
        ({"message": {**MESSAGE, "parts": [{"text": 5}]}}, "message.parts[0].text"),
        ({"message": {**MESSAGE, "messageId": "\ud800"}}, "message.messageId"),
        ([], ""),
        ("x", ""),
    ],
)
async def test_bad_params_name_the_field(binding: Variant, params: Any, field: str) -> None:
    async with hosting(Scripted()) as host:
        answer = await ask(host, binding.raw(params))
    assert answer.reason == "INVALID_PARAMS"
    error = answer.json()["error"]
    violations = error.get("data", error.get("details"))[1]["fieldViolations"]
    assert violations[0]["field"] == field


@both
async def test_unknown_members_are_ignored_and_of_duplicates_the_last_counts(binding: Variant) -> None:
    service = Scripted()
    raw = b'{"new":1,"message":{"messageId":"a","messageId":"b","role":"ROLE_USER","parts":[{"text":"x"}]}}'
    async with hosting(service) as host:
        binding.result(await ask(host, binding.raw(raw)))
    assert service.calls[0].request.message.message_id == "b"


@both
async def test_integers_beyond_a_double(binding: Variant) -> None:
    """They are read exactly; larger ones than the codec can hold are rejected or rounded; nothing crashes."""
    raw = b'{"message":{"messageId":"a","role":"ROLE_USER","parts":[{"data":%d}]}}' % 2**100
    service = Scripted()
    async with hosting(service) as host:
        binding.result(await ask(host, binding.raw(raw)))
    assert service.calls[0].request.message.parts[0].data.number_value == float(2**100)


@both
@pytest.mark.parametrize("reason", list(Reason))
async def test_every_error(binding: Variant, reason: Reason) -> None:
    async with hosting(
        Scripted(
            on_unary=answering(
                A2AError(
                    reason,
                    "told",
                    violations=[Violation("a.b", "wrong")],
                    metadata={"k": "v"},
                    retry_after=1.2,
                )
            )
        )
    ) as host:
        answer = await ask(host, binding.send())
    assert (answer.reason, answer.headers["retry-after"]) == (reason.name, "2")
    error = answer.json()["error"]
    assert error["message"] == "told"
    if binding.kind == "JSONRPC":
        assert answer.json()["id"] == 1
        assert error["code"] == reason.code
        assert answer.status == (reason.http if reason.level == "http" else 200)
    else:
        assert (error["code"], error["status"]) == (reason.http, reason.grpc.name)
        assert answer.status == reason.http


@both
async def test_a_defect_stays_in(binding: Variant, caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(Scripted(on_unary=answering(KeyError("a secret")))) as host:
        answer = await ask(host, binding.send())
    assert answer.reason == "INTERNAL_ERROR"
    assert b"secret" not in answer.body
    assert b"KeyError" not in answer.body
    assert "a secret" in caplog.text


@both
async def test_a_cancellation_from_within_is_a_defect(
    binding: Variant, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(Scripted(on_unary=answering(asyncio.CancelledError()))) as host:
        answer = await ask(host, binding.send())
    assert answer.reason == "INTERNAL_ERROR"
    assert caplog.records


@both
async def test_an_answer_that_json_cannot_say(binding: Variant) -> None:
    async def fail(_: Call[Any, Any]) -> Any:
        answer = reply()
        answer.message.metadata["x"] = float("nan")
        return answer

    async with hosting(Scripted(on_unary=fail)) as host:
        assert (await ask(host, binding.send())).reason == "INVALID_AGENT_RESPONSE"


@both
async def test_reply_parameters_are_headers(binding: Variant) -> None:
    async def answer(call: Call[Any, Any]) -> Any:
        call.context.reply["a2a-extensions"] = "urn:a"
        if call.operation.name == "GetTask":
            call.context.reply["www-authenticate"] = "Bearer"
            raise A2AError(Reason.UNAUTHENTICATED)
        return reply()

    async with hosting(Scripted(on_unary=answer)) as host:
        assert (await ask(host, binding.send())).headers["a2a-extensions"] == "urn:a"
        denied = await ask(host, binding.get("7"))
    assert (denied.status, denied.headers["www-authenticate"]) == (401, "Bearer")


@both
async def test_each_401_has_a_challenge(binding: Variant) -> None:
    async with hosting(Scripted(on_unary=answering(A2AError(Reason.UNAUTHENTICATED)))) as host:
        denied = await ask(host, binding.get("7"))
    assert (denied.status, denied.headers["www-authenticate"]) == (401, 'Bearer realm="a2a"')


@both
@pytest.mark.parametrize("bad", [{"x": "a\r\nb"}, {"x": "\0"}, {"a b": "c"}, {"content-length": "5"}])
@pytest.mark.parametrize("failing", [False, True])
async def test_reply_parameters_that_cannot_be(
    binding: Variant, bad: dict[str, str], failing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(call: Call[Any, Any]) -> Any:
        call.context.reply.update(bad)
        if failing:
            raise A2AError(Reason.UNAVAILABLE)
        return reply()

    async with hosting(Scripted(on_unary=answer)) as host:
        found = await ask(host, binding.send())
    assert found.reason == "INTERNAL_ERROR"
    assert caplog.records


@both
async def test_a_deadline_is_on_the_monotonic_clock(binding: Variant) -> None:
    service = Scripted()
    async with hosting(service) as host:
        before = time.monotonic()
        await ask(host, binding.send(Request_Timeout="30.5"))
        await ask(host, binding.send())
        wrong = await ask(host, binding.send(Request_Timeout="soon"))
    first, second = service.calls
    assert first.context.deadline is not None
    assert before + 30.5 <= first.context.deadline <= time.monotonic() + 30.5
    assert second.context.deadline is None
    assert wrong.reason == "INVALID_REQUEST"


@both
async def test_extensions_from_several_headers(binding: Variant) -> None:
    service = Scripted()
    async with hosting(service) as host:
        data = binding.send(A2A_Extensions="a, b").replace(b"Host: x", b"Host: x\r\na2a-extensions: c")
        await ask(host, data)
    assert service.calls[0].context.extensions == ("c", "a", "b")


@both
@pytest.mark.parametrize("tenant", ["", "acme"])
async def test_the_tenant_of_the_body(binding: Variant, tenant: str) -> None:
    service = Scripted()
    async with hosting(service) as host:
        await ask(host, binding.raw({"message": MESSAGE, "tenant": tenant}))
    [call] = service.calls
    assert (call.context.tenant, call.request.tenant) == (tenant, tenant)


async def test_the_tenant_of_the_path() -> None:
    service = Scripted()
    body = json.dumps({"message": MESSAGE, "tenant": "other"})
    async with hosting(service) as host:
        await ask(host, request("POST", "/ac%2Fme/message:send", json.dumps({"message": MESSAGE})))
        wrong = await ask(host, request("POST", "/acme/message:send", body))
    [call] = service.calls
    assert (call.context.tenant, call.request.tenant) == ("ac/me", "ac/me")
    assert wrong.reason == "INVALID_PARAMS"


async def test_delete_answers_null_or_nothing() -> None:
    params = {"taskId": "7", "id": "8"}
    async with hosting(Scripted()) as host:
        rpc = await ask(host, request("POST", "/", frame("DeleteTaskPushNotificationConfig", params)))
        rest = await ask(host, request("DELETE", "/tasks/7/pushNotificationConfigs/8"))
    assert rpc.body == b'{"jsonrpc":"2.0","id":1,"result":null}'
    assert (rest.status, rest.body) == (200, b"{}")


async def test_params_may_be_left_out_where_all_are_optional() -> None:
    service = Scripted()
    async with hosting(service) as host:
        assert (await ask(host, request("POST", "/", frame("ListTasks")))).status == 200
        assert (await ask(host, request("POST", "/", frame("GetTask")))).reason == "INVALID_PARAMS"
    assert len(service.calls) == 1


@pytest.mark.parametrize("method", ["Nothing", "message/send", "sendMessage", "__class__"])
async def test_methods_that_do_not_exist(method: str) -> None:
    async with hosting(Scripted()) as host:
        answer = await ask(host, request("POST", "/", frame(method, {}, id_="x")))
    assert (answer.reason, answer.json()["id"]) == ("METHOD_NOT_FOUND", "x")


async def test_an_id_that_is_larger_than_64_bits_comes_back() -> None:
    body = b'{"jsonrpc":"2.0","id":%d,"method":"GetTask","params":{"id":"7"}}' % 2**90
    async with hosting(Scripted()) as host:
        answer = await ask(host, request("POST", "/", body))
    assert b'"id":%d,' % 2**90 in answer.body


@each(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/a2a+json", "application/a2a+json"),
        ("application/a2a+json, application/json", "application/a2a+json"),
        ("application/a2a+json;q=0.5, application/json", "application/json"),
        ("application/json;q=0.5, Application/A2A+JSON ; q=0.6", "application/a2a+json"),
        ("application/a2a+json;q=0", "application/json"),
        ("application/a2a+json;q=x", "application/json"),
    ],
)
async def test_rest_media_types(accept: str, expected: str) -> None:
    headers = {"Accept": accept} if accept else {}
    async with hosting(Scripted()) as host:
        good = await ask(host, request("GET", "/tasks/7", **headers))
        bad = await ask(host, request("GET", "/nothing/at/all", **headers))
        worse = await ask(host, request("POST", "/message:send", b"{", **headers))
    assert {answer.headers["content-type"] for answer in (good, worse, bad)} == {expected}


async def test_a_body_on_get_is_ignored(host: HttpHost) -> None:
    assert (await ask(host, request("GET", "/tasks/7", b"{nonsense"))).json()["id"] == "7"


@each("body", [b"", b" \n"])
@each("path", ["/", "/message:send", "/message:stream", "/acme/message:send"])
async def test_an_empty_body_is_no_document(path: str, body: bytes) -> None:
    async with hosting(Scripted()) as host:
        answer = await ask(host, request("POST", path, body))
    assert answer.reason == "PARSE_ERROR"


async def test_an_empty_body_where_the_path_says_all() -> None:
    service = Scripted()
    async with hosting(service) as host:
        await ask(host, request("POST", "/tasks/7:cancel"))
    assert [call.request.id for call in service.calls] == ["7"]


async def test_query_parameters_reach_the_request() -> None:
    service = Scripted()
    query = (
        "pageSize=5&status=TASK_STATE_WORKING&includeArtifacts=true&statusTimestampAfter=2026-01-01T00:00:00Z"
    )
    async with hosting(service) as host:
        assert (await ask(host, request("GET", f"/tasks?{query}"))).status == 200
        bad = await ask(host, request("GET", "/tasks?status=NONSENSE"))
    [call] = service.calls
    assert (call.request.page_size, call.request.status) == (5, hub.TASK_STATE_WORKING)
    assert call.request.include_artifacts
    assert call.request.status_timestamp_after.seconds == 1767225600
    assert bad.reason == "INVALID_PARAMS"
