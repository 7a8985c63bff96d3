"""One server for A2A, MCP and OpenAI's API: real clients of all three at one port, on each of our hosts."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from mcp import MCPError

from a2a_bridge import connect, interface
from a2a_bridge.app.fronts import TakenPathError
from a2a_bridge.app.runtime import serve_agent
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile, Rule
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call, CallContext
from a2a_bridge.core.errors import Reason
from a2a_bridge.middleware import Limits, Metrics, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge_adapters.fronts.mcp_content import TASK_META
from a2a_bridge_adapters.fronts.served import Open
from tests.fronts.desk import Desk
from tests.fronts.fronts import ACCEPT, INITIALIZE, authentication
from tests.fronts.served import (
    HTTP,
    Served,
    agent_of,
    before_a_gateway,
    in_asgi,
    in_envoy,
    on_its_listener,
    options_of,
)
from tests.fronts.test_mcp import ERAS, TOOL, text_of
from tests.fronts.test_mcp import client as mcp_client
from tests.fronts.test_openai import chat
from tests.fronts.test_openai import client as openai_client
from tests.middleware.test_metrics import value
from tests.patience import PATIENCE
from tests.rejections import rejected

everywhere = pytest.mark.parametrize(
    "served",
    [on_its_listener, before_a_gateway, in_asgi, pytest.param(in_envoy, marks=pytest.mark.process)],
    ids=lambda one: one.__name__,
)


@everywhere
async def test_clients_of_three_protocols_at_one_port(served: Served) -> None:
    async with asyncio.timeout(PATIENCE), served(Desk(), options_of()) as url:
        for binding, version in (("JSONRPC", "1.0"), ("HTTP+JSON", "0.3"), ("HTTP+JSON", "1.0")):
            async with connect(url, binding=binding, version=version) as peer:
                assert (await peer.send("hello")).text == "hello!"
        for era in ERAS:
            async with mcp_client(url, era) as mcp:
                tools = (await mcp.list_tools()).tools
                assert [one.name for one in tools] == [TOOL, "ask_desk_2", "task_status"]
                assert text_of(await mcp.call_tool(TOOL, {"message": "hello"})).startswith("hello!")
        async with openai_client(url) as api, httpx.AsyncClient() as http:
            assert [one.id async for one in api.models.list()] == ["desk"]
            assert (await api.models.retrieve("desk")).id == "desk"
            assert await chat(api, "hello") == "hello!"
            assert (await api.responses.create(model="desk", input="hello")).output_text == "hello!"
            page = await http.get(url, headers={"Accept": "text/html"})
            assert f"<code>{url}/mcp</code>" in page.text
            assert f"<code>{url}/v1</code>" in page.text


async def _status_at(url: str, key: str) -> int:
    headers = {**ACCEPT, "Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient() as http:
        return (await http.post(f"{url}/mcp", json=INITIALIZE, headers=headers)).status_code


def with_key(key: str) -> DialOptions:
    return DialOptions(parameters={"authorization": f"Bearer {key}"})


@everywhere
async def test_callers_rules_and_counts_are_those_of_the_server(served: Served) -> None:
    usage, metrics = Usage(), Metrics()
    options = options_of(
        authentication=authentication(),
        access_rules=(Rule(principals=("ann",)),),
        usage=usage,
        metrics=metrics,
    )
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(Desk(), options))
        ann = await stack.enter_async_context(mcp_client(url, ERAS[0], "key of ann"))
        bob = await stack.enter_async_context(mcp_client(url, ERAS[0], "key of bob"))
        assert await _status_at(url, "no key") == 401
        done = await ann.call_tool(TOOL, {"message": "hello"})
        assert text_of(done).startswith("hello!")
        with pytest.raises(MCPError, match=f"there is no tool '{TOOL}'"):
            await bob.call_tool(TOOL, {"message": "hello"})
        async with openai_client(url, "key of ann") as api:
            assert await chat(api, "hello", extra_headers={"User-Agent": "a chat"}) == "hello!"
        async with openai_client(url, "key of bob") as api:
            with pytest.raises(openai.NotFoundError, match="'desk' does not exist; /v1/models lists"):
                await chat(api, "hello")
        # The task of a caller is hers over each protocol.
        assert done.meta is not None
        task = Call(ops.GET_TASK, hub.GetTaskRequest(id=done.meta[TASK_META]), CallContext())
        async with connect(url, binding="JSONRPC", options=with_key("key of ann")) as peer:
            assert (await peer.service.unary(task)).id == done.meta[TASK_META]
        async with connect(url, binding="JSONRPC", options=with_key("key of bob")) as peer:
            with rejected(Reason.PERMISSION_DENIED):
                await peer.service.unary(task)
        counted = {(one.binding, one.principal, one.operation): (one.calls, one.errors) for one in usage}
        sent = "SendStreamingMessage"
        assert counted["MCP", "ann", sent] == counted["OPENAI", "ann", sent] == (1, 0)
        assert counted["MCP", "bob", sent] == counted["OPENAI", "bob", sent] == (1, 1)
        assert "a chat" in {one.client for one in usage if one.binding == "OPENAI"}
        for binding in ("MCP", "OPENAI"):
            labels = {"agent": "desk", "binding": binding, "version": "", "operation": sent, "code": "OK"}
            assert value(metrics, "requests_total", **labels) == 1


async def test_a_quota_counts_the_calls_of_all_protocols() -> None:
    desk, options = Desk(), options_of(limits=Limits(streams=1), authentication=authentication())
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        url = await stack.enter_async_context(on_its_listener(desk, options))
        api = await stack.enter_async_context(openai_client(url, "key of ann"))
        mcp = await stack.enter_async_context(mcp_client(url, ERAS[1], "key of ann"))
        first = asyncio.create_task(chat(api, "work"))
        await desk.working.wait()
        second = await mcp.call_tool(TOOL, {"message": "hello"})
        assert "RESOURCE_EXHAUSTED: more than 1 streams at once" in text_of(second)
        desk.released.set()
        assert await first == "worked"


async def test_an_api_key_comes_as_a_bearer_token(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    key = file.create("ann").text
    options = options_of(authentication=Authentication([ApiKeys(file)]))
    async with asyncio.timeout(PATIENCE), on_its_listener(Desk(), options) as url:
        async with openai_client(url, key) as api:
            assert await chat(api, "hello") == "hello!"
        assert [await _status_at(url, one) for one in (key, "ann.wrong")] == [200, 401]


@each("grace,ends", [(PATIENCE, "worked"), (1.0, "the server is shutting down")])
async def test_a_server_that_stops_lets_calls_end_or_tells_why_not(grace: float, ends: str) -> None:
    desk = Desk()
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve_agent(agent_of(desk), HTTP, options_of()))
        url = f"http://{server.http}"
        mcp = await stack.enter_async_context(mcp_client(url, ERAS[0]))
        api = await stack.enter_async_context(openai_client(url))
        called = asyncio.create_task(mcp.call_tool(TOOL, {"message": "work"}))
        await desk.working.wait()
        desk.working.clear()
        asked = asyncio.create_task(chat(api.with_options(max_retries=0), "work"))
        await desk.working.wait()
        draining = asyncio.create_task(server.drain(grace))
        if ends == "worked":
            desk.released.set()
            assert await asked == "worked"
        else:
            with pytest.raises(openai.InternalServerError, match="the server is stopping"):
                await asked
        assert ends in text_of(await called)
        await draining


@each(
    "interfaces,front,text",
    [
        ([interface("JSONRPC", "/mcp")], "mcp", "'mcp' has /mcp, and an interface of JSONRPC is at /mcp"),
        ([interface("HTTP+JSON", "/mcp/")], "mcp", "'mcp' has /mcp, and an interface of HTTP.JSON is at"),
        ([interface("JSONRPC", tenant="mcp")], "mcp", "'mcp' has /mcp, and the tenant 'mcp' of JSONRPC"),
        ([interface("JSONRPC", "/v1/models/a")], "openai", "'openai' has /v1/models, .* is at /v1/models/a"),
        ([interface("JSONRPC", "/v1", tenant="responses")], "openai", "has /v1/responses, and the tenant"),
    ],
)
async def test_what_collides_is_an_error_that_names_both(interfaces: Any, front: str, text: str) -> None:
    with pytest.raises(TakenPathError, match=text):
        async with serve_agent(
            agent_of(Desk()), interfaces, options_of(**{"mcp": False, "openai": False, front: True})
        ):
            pass


async def test_a_front_needs_an_http_listener() -> None:
    with pytest.raises(ValueError, match="mcp, openai: needs an HTTP interface"):
        async with serve_agent(agent_of(Desk()), [interface("GRPC")], options_of()):
            pass


@each(
    "members,status",
    [
        ({}, 421),
        ({"public_url": "http://shop.example"}, 200),
        ({"authentication": authentication()}, 200),
    ],
)
async def test_a_web_page_cannot_call_under_a_name_of_its_own(members: Any, status: int) -> None:
    headers = {"Host": "shop.example", "Authorization": "Bearer key of ann"}
    async with (
        asyncio.timeout(PATIENCE),
        on_its_listener(Desk(), options_of(**members)) as url,
        httpx.AsyncClient(headers=headers) as http,
    ):
        assert (await http.get(f"{url}/v1/models")).status_code == status
        assert (await http.post(f"{url}/mcp", json=INITIALIZE, headers=ACCEPT)).status_code == status


async def test_the_trace_of_a_caller_goes_on() -> None:
    seen: list[CallContext] = []

    def note(service: Any) -> Any:
        class Noting:
            async def unary(self, call: Any, /) -> Any:
                return await service.unary(call)

            def stream(self, call: Any, /) -> Any:
                seen.append(call.context)
                return service.stream(call)

        return Noting()

    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with (
        asyncio.timeout(PATIENCE),
        on_its_listener(Desk(), options_of(middleware=(note,))) as url,
        openai_client(url) as api,
    ):
        await chat(api, "hello", extra_headers={"traceparent": trace, "X-Secret": "of the caller"})
    assert {**seen[0].parameters, "user-agent": ""} == {"traceparent": trace, "user-agent": ""}


async def test_fronts_end_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may wait for agents that cancel nothing."""
    both = asyncio.Barrier(2)

    async def draining(_: Open, __: float) -> None:
        await both.wait()

    async with asyncio.timeout(PATIENCE):
        async with on_its_listener(Desk(), options_of()):
            monkeypatch.setattr(Open, "drain", draining)
        assert both.n_waiting == 0
