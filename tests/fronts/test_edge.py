"""What the edge of a front answers before a request becomes a call: methods, bodies, Host, and what is counted."""

import asyncio
import gzip
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from a2a_bridge.auth import Rule
from a2a_bridge.bindings.binding import HostOptions
from a2a_bridge.bindings.traffic import rejected_requests
from tests.fronts.desk import Desk
from tests.fronts.fronts import ACCEPT, INITIALIZE, authentication
from tests.fronts.served import Served, before_a_gateway, in_asgi, in_envoy, on_its_listener, options_of
from tests.fronts.test_mcp import TOOL
from tests.patience import PATIENCE

JSON = {**ACCEPT, "Content-Type": "application/json"}
ANN = {"Authorization": "Bearer key of ann"}
CHAT = "/v1/chat/completions"

everywhere = pytest.mark.parametrize(
    "served",
    [on_its_listener, in_asgi, pytest.param(in_envoy, marks=pytest.mark.process)],
    ids=lambda one: one.__name__,
)

#: method, path, body, headers → status, the reason that is counted, a header of the response, part of its text
REJECTED: list[tuple[str, str, bytes, dict[str, str], int, str, tuple[str, str], str]] = [
    ("PUT", "/mcp", b"", ANN, 405, "METHOD_NOT_FOUND", ("allow", "DELETE, GET, OPTIONS, POST"), "jsonrpc"),
    ("HEAD", "/mcp", b"", ANN, 405, "METHOD_NOT_FOUND", ("allow", "DELETE, GET, OPTIONS, POST"), ""),
    ("POST", "/v1/models", b"", ANN, 405, "METHOD_NOT_FOUND", ("allow", "GET, OPTIONS"), '"param":null'),
    ("GET", CHAT, b"", ANN, 405, "METHOD_NOT_FOUND", ("allow", "OPTIONS, POST"), '"param":null'),
    ("GET", "/mcp", b"", {}, 401, "UNAUTHENTICATED", ("www-authenticate", 'Bearer realm="test"'), "jsonrpc"),
    ("POST", CHAT, b"{}", {}, 401, "UNAUTHENTICATED", ("www-authenticate", 'Bearer realm="test"'), ""),
    *(
        row
        for path, form in (("/mcp", '"jsonrpc"'), (CHAT, '"param"'))
        for row in (
            ("POST", path, b"x" * 2_000, ANN, 413, "REQUEST_TOO_LARGE", ("content-type", "application/json"), form),
            (
                *("POST", path, gzip.compress(b"{}"), {**ANN, "Content-Encoding": "gzip"}),
                *(415, "CONTENT_TYPE_NOT_SUPPORTED", ("accept-encoding", "identity"), form),
            ),
        )
    ),
    ("POST", CHAT, b"{}", ANN, 400, "INVALID_PARAMS", ("content-type", "application/json"), '"messages"'),
    ("GET", "/v1/models/x", b"", ANN, 404, "METHOD_NOT_FOUND", ("content-type", "application/json"), "model_not"),
    *(
        (method, "/mcp", body, ANN, 400, "INVALID_REQUEST", ("content-type", "application/json"), "Mcp-Session-Id")
        for method, body in (("GET", b""), ("DELETE", b""), ("POST", b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))
    ),
    ("POST", "/mcp", b"{", ANN, 400, "PARSE_ERROR", ("content-type", "application/json"), "-32700"),
]  # fmt: skip


@everywhere
async def test_what_is_rejected_is_counted_in_the_form_of_the_front(served: Served) -> None:
    options = options_of(
        authentication=authentication(),
        host=HostOptions(max_body=1_000, header_timeout=PATIENCE),
    )
    async with asyncio.timeout(PATIENCE), served(Desk(), options) as url, httpx.AsyncClient() as http:
        for method, path, body, headers, status, reason, header, text in REJECTED:
            case = f"{method} {path} {status}"
            counted = ("MCP" if path == "/mcp" else "OPENAI", "", reason)
            before = rejected_requests[counted]
            answer = await http.request(method, f"{url}{path}", content=body, headers={**JSON, **headers})
            assert (answer.status_code, answer.headers.get(header[0])) == (status, header[1]), case
            assert text in answer.text, case
            assert "mcp-session-id" not in answer.headers, case
            assert rejected_requests[counted] == before + 1, case
        for path, allowed in (("/mcp", "DELETE, GET, OPTIONS, POST"), (CHAT, "OPTIONS, POST")):
            asked = await http.options(f"{url}{path}", headers=ANN)
            assert (asked.status_code, asked.headers["allow"], asked.content) == (204, allowed, b"")
            assert "mcp-session-id" not in asked.headers


async def opened(http: httpx.AsyncClient, url: str) -> dict[str, str]:
    """The headers of a request in a session that it opens."""
    answer = await http.post(f"{url}/mcp", json=INITIALIZE, headers=JSON)
    return {**JSON, "Mcp-Session-Id": answer.headers["mcp-session-id"]}


def call(**members: Any) -> dict[str, Any]:
    params = {"name": TOOL, "arguments": {"message": "hello"}}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params} | members


#: a member of a message of MCP, the error, and values that it may not have
ODD: list[tuple[str, str, list[Any]]] = [
    ("id", "id: is text or a whole number", [None, True, 1.5, [], {}]),
    ("jsonrpc", 'jsonrpc: is \\"2.0\\"', [None, 2.0, "1.0", []]),
    ("method", "method: is required, as text", [None, 1, []]),
    ("params", "params: is an object", [True, 1, "x", []]),
]
#: members of a message of MCP → a part of the error, which names the member
WRONG: list[tuple[dict[str, Any], str]] = [
    *(
        ({member: value}, text)
        for member, text, values in ODD
        for value in values
    ),
    ({"params": {}}, "name: "),
    ({"params": {"name": 1}}, "name: "),
    ({"params": {"name": TOOL, "arguments": 1}}, "arguments: "),
    ({"params": {"name": TOOL, "_meta": 1}}, "_meta: "),
    ({"method": "tools/list", "params": {"cursor": 1}}, "cursor: "),
    ({"params": {"name": TOOL, "arguments": {"message": True}}}, "message: is text, not true"),
    ({"params": {"name": TOOL, "arguments": {"message": "x", "data": []}}}, "data: is a JSON object, not an array"),
]  # fmt: skip


async def test_the_error_for_a_message_of_mcp_names_the_member() -> None:
    async with (
        asyncio.timeout(PATIENCE),
        on_its_listener(Desk(), options_of()) as url,
        httpx.AsyncClient() as http,
    ):
        headers = await opened(http, url)
        for members, text in WRONG:
            answer = await http.post(f"{url}/mcp", json=call(**members), headers=headers)
            assert text in answer.text, (members, answer.text)
        invalid = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": 1}}  # type: ignore[dict-item]
        assert "capabilities: " in (await http.post(f"{url}/mcp", json=invalid, headers=JSON)).text


async def test_a_second_request_with_the_id_of_a_running_one_does_not_take_its_answer() -> None:
    desk = Desk()
    async with (
        asyncio.timeout(PATIENCE),
        on_its_listener(desk, options_of()) as url,
        httpx.AsyncClient(timeout=PATIENCE) as http,
    ):
        headers = await opened(http, url)
        work = call(params={"name": TOOL, "arguments": {"message": "work"}})
        first = asyncio.create_task(http.post(f"{url}/mcp", json=work, headers=headers))
        await desk.working.wait()
        for same in (7, "7"):  # the transport does not tell them apart
            second = await http.post(f"{url}/mcp", json=call(id=same), headers=headers)
            assert (second.status_code, "id: a request with this id is running" in second.text) == (
                400,
                True,
            )
        desk.released.set()
        assert "worked" in (await first).text
        assert "hello!" in (await http.post(f"{url}/mcp", json=call(), headers=headers)).text


@pytest.mark.parametrize("served", [on_its_listener, before_a_gateway], ids=lambda one: one.__name__)
async def test_a_caller_without_rights_does_not_learn_what_the_only_agent_is(served: Served) -> None:
    options = options_of(authentication=authentication(), access_rules=(Rule(principals=("ann",)),))
    async with asyncio.timeout(PATIENCE), served(Desk(), options) as url, httpx.AsyncClient() as http:
        for key, shown in (("key of ann", True), ("key of bob", False)):
            headers = {**JSON, "Authorization": f"Bearer {key}"}
            answer = await http.post(f"{url}/mcp", json=INITIALIZE, headers=headers)
            assert ("desk" in answer.text) is shown
            absent = await http.get(f"{url}/v1/models/x", headers=headers)
            assert ("this agent is 'desk'" in absent.text) is shown


#: headers → the status at /mcp and at /v1/models
PAGES: list[tuple[dict[str, str], int, int]] = [
    ({"Host": "evil.example"}, 421, 421),
    ({"Host": "127.0.0.1.evil.example"}, 421, 421),
    ({"Host": "localhost:1"}, 200, 200),
    ({"Host": "desk.example"}, 200, 200),
    ({"Origin": "https://evil.example"}, 403, 200),
    ({"Origin": "null"}, 403, 200),
    ({"Origin": "http://localhost:3000"}, 200, 200),
]


@everywhere
async def test_a_web_page_does_not_reach_a_server_of_this_machine(served: Served) -> None:
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient())
        near = await stack.enter_async_context(served(Desk(), options_of(public_url="https://desk.example")))
        for headers, mcp, models in PAGES:
            answer = await http.post(f"{near}/mcp", json=INITIALIZE, headers={**JSON, **headers})
            assert answer.status_code == mcp, headers
            assert (await http.get(f"{near}/v1/models", headers=headers)).status_code == models, headers
        keys = await stack.enter_async_context(served(Desk(), options_of(authentication=authentication())))
        answer = await http.get(f"{keys}/v1/models", headers={**ANN, "Host": "evil.example"})
        assert answer.status_code == 200
