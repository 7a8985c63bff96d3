"""Calls of the playground: several cells at once, both hops of a gateway, comparison, history."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from a2a_bridge.app.runtime import Server, serve_service
from a2a_bridge.bindings.binding import DialOptions, ListenAddress
from a2a_bridge.cards import interface
from a2a_bridge.cli.target import parse
from a2a_bridge.core import operations as ops
from a2a_bridge.core.call import Call
from a2a_bridge.core.service import Event, Events
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.playground.page import Playground
from a2a_bridge_tools.playground.subject import Compared, Result, Subject, comparison
from tests.cli.commands import ANY_PORT, agent, card, command, serving
from tests.patience import PATIENCE
from tests.peers.processes import Agent
from tests.tools.playground.api import Api, api_at, api_of, message, of

CURRENT = ("JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 1.0")
DEMO = ("server", *ANY_PORT, "--ui")


async def test_a_message_over_every_cell() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        state = await api.get("/api/state")
        assert (state["kind"], len(state["operations"])) == ("agent", 11)
        agent = await api.get("/api/agent")
        cells = [one["id"] for one in agent["cells"]]
        assert (cells[:3], len(cells)) == (list(CURRENT), 9)
        assert agent["upstream"] is None
        lines = await api.call("SendStreamingMessage", message("hello"))
        assert lines[0]["call"] == "SendStreamingMessage"
        assert lines[0]["request"]["message"]["messageId"]
        for cell in cells:
            sent, *received = of(lines, "sent", cell=cell)
            assert sent["sent"], cell
            assert not any(one["sent"] for one in received), cell
            assert "hello" in json.dumps(sent), cell
            (end,) = of(lines, "end", cell=cell)
            assert end["end"] == {"seconds": end["end"]["seconds"], "state": "completed", "error": None}
            texts = json.dumps([one["event"] for one in of(lines, "event", cell=cell)])
            assert "hello" in texts, cell
        verdicts = [one["verdict"] for one in lines[-1]["comparison"]]
        assert verdicts == ["first"] + ["identical"] * 8


async def test_the_same_error_over_every_cell() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        lines = await api.call("GetTask", {"id": "nobody-has-it"}, *CURRENT)
        errors = [one["end"]["error"] for one in of(lines, "end")]
        assert [one["code"] for one in errors] == ["TaskNotFoundError"] * 3
        assert [one["verdict"] for one in lines[-1]["comparison"]] == ["first", "identical", "identical"]
        (entry,) = await api.get("/api/history")
        assert not entry["ok"]
        assert entry["summary"] == "nobody-has-it"


async def test_both_hops_of_a_gateway_to_the_official_sdk(peer_agents: Callable[..., Agent]) -> None:
    peer = peer_agents("0.3.26")
    async with serving("gateway", peer.http, *ANY_PORT, "--ui") as running, api_of(running) as api:
        shown = await api.get("/api/agent")
        assert shown["upstream"]["version"].startswith("0.3")
        assert shown["upstream_card"]["name"]
        lines = await api.call("SendMessage", message("hello"), *CURRENT)
        for cell in CURRENT:
            sent, *_ = of(lines, "sent", cell=cell, hop="upstream")
            assert sent["sent"], cell
            assert "message/send" in json.dumps(sent), cell
            # The frame is the one that the agent got: its shape is that of 0.3.
            assert "kind" in json.dumps(sent), cell
            assert of(lines, "event", cell=cell, hop="upstream"), cell
        compared = lines[-1]["comparison"]
        assert [(one["cell"], one["hop"]) for one in compared] == [
            *((cell, "client") for cell in CURRENT),
            *((cell, "upstream") for cell in CURRENT),
        ]
        assert {one["verdict"] for one in compared} == {"first", "identical"}


async def test_calls_of_others_are_not_recorded(peer_agents: Callable[..., Agent]) -> None:
    peer = peer_agents("0.3.26")
    async with serving("gateway", peer.http, *ANY_PORT, "--ui") as running, api_of(running) as api:
        theirs = asyncio.gather(*(command("send", "-a", running.http, f"secret {n}") for n in range(3)))
        lines = await api.call("SendMessage", message("hello"), *CURRENT)
        assert all(one.code == 0 for one in await theirs)
        assert "secret" not in json.dumps(lines)
        assert len(of(lines, "sent", hop="upstream")) == len(of(lines, "sent", hop="client"))


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Api]:
    """A playground in this process."""
    subject = Subject("probe", parse(f"http://{server.http}"), DialOptions())
    playground = Playground("test", "client", lambda: [subject], ListenAddress())
    async with playground.open() as address, api_at(address) as api:
        yield api


class Tenants:
    """An agent whose configurations have a tenant."""

    async def unary(self, call: Call[Any, Any], /) -> Any:
        assert isinstance(call.request, hub.TaskPushNotificationConfig)
        return hub.TaskPushNotificationConfig(id="c", task_id="t", url=call.request.url, tenant="north")

    def stream(self, call: Call[Any, Any], /) -> Events:
        raise AssertionError(call.operation.name)


async def test_a_difference_names_its_rule() -> None:
    shown = card(capabilities=hub.AgentCapabilities(streaming=True, push_notifications=True))
    interfaces = [interface("JSONRPC"), interface("GRPC", version="0.3")]
    async with serve_service(Tenants(), shown, interfaces) as server, opened(server) as api:
        config = {"taskId": "t", "url": "http://127.0.0.1:9/"}
        lines = await api.call("CreateTaskPushNotificationConfig", config)
        _, old = lines[-1]["comparison"]
        assert old["verdict"] == "different"
        (lost,) = old["differences"]
        assert (lost["path"], lost["this"], lost["that"]) == ("[0].tenant", "'north'", "absent")
        assert lost["rule"].startswith("0.3: ")


async def test_a_stream_goes_on_after_an_event() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        lines = await api.call("SendStreamingMessage", message("tck-stream-chunked"), "GRPC 1.0")
        events = of(lines, "event")
        task = events[0]["event"]["task"]["id"]
        again = of(
            await api.call("SubscribeToTask", {"id": task}, "JSONRPC 1.0", after=events[1]["id"]), "event"
        )
        assert [one["event"] for one in again] == [one["event"] for one in events[2:]]


class Endless:
    """An agent whose streams never end. left: set when a caller has gone."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    def unary(self, call: Call[Any, Any], /) -> Any:
        raise AssertionError(call.operation.name)

    async def stream(self, _call: Call[Any, Any], /) -> Events:
        try:
            yield Event(hub.StreamResponse(task=hub.Task(id="t", context_id="c")))
            await asyncio.Event().wait()
        finally:
            self.left.set()


async def test_a_page_that_leaves_ends_its_calls() -> None:
    service = Endless()
    asked = {"operation": "SendStreamingMessage", "request": message("x"), "cells": ["JSONRPC 1.0"]}
    async with agent(service, "JSONRPC") as server, opened(server) as api, asyncio.timeout(PATIENCE):
        async with api.session.post("/api/calls", json=asked) as response:
            while b'"event"' not in await response.content.readline():
                assert not service.left.is_set()
        await service.left.wait()


async def test_history_export_and_import() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        await api.call("SendMessage", message("one"), *CURRENT)
        lines = await api.call("SendMessage", message("two"), "GRPC 1.0")
        entries = await api.get("/api/history")
        assert [one["summary"] for one in entries] == ["two", "one"]
        assert await api.lines("/api/history/2") == lines
        exported = await api.lines("/api/export")
        assert exported[-len(lines) :] == lines
        async with api.session.post("/api/history/1", json={"pinned": True}) as response:
            assert (await response.json())["pinned"]
        async with api.session.delete("/api/history") as response:
            assert response.status == 204
        assert [one["number"] for one in await api.get("/api/history")] == [1]
        body = "\n".join(json.dumps(one) for one in lines)
        async with api.session.post("/api/import", data=body) as response:
            assert await response.json() == {"numbers": [3]}
        assert await api.lines("/api/history/3") == lines


async def test_a_record_of_the_command_and_one_for_it(tmp_path: Path) -> None:
    path = tmp_path / "record.ndjson"
    async with serving(*DEMO) as running, api_of(running) as api:
        done = await command("send", "-a", running.http, "hello", "--record", str(path))
        assert done.code == 0, done.err
        async with api.session.post("/api/import", data=path.read_bytes()) as response:
            assert await response.json() == {"numbers": [1]}
        (entry,) = await api.get("/api/history")
        assert (entry["summary"], entry["cells"]) == ("hello", ["recorded"])
        await api.call("SendMessage", message("again"), *CURRENT)
        async with api.session.get("/api/export?number=2") as response:
            path.write_bytes(await response.read())
        done = await command("compare", "-a", running.http, "--replay", str(path), "--record", str(path))
        assert done.code == 0, done.err
        assert done.out.count("✓") == 9, done.out
        async with api.session.post("/api/import", data=path.read_bytes()) as response:
            assert await response.json() == {"numbers": [3]}
        assert len((await api.get("/api/history"))[0]["cells"]) == 9


async def test_the_equivalent_of_a_call() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        asked = {
            "operation": "SendMessage",
            "request": message("hello"),
            "headers": {"X-Key": "secret-value"},
        }
        for cell, kind, begin in (
            ("JSONRPC 1.0", "curl", "curl "),
            ("HTTP+JSON 0.3", "curl", "curl "),
            ("GRPC 1.0", "grpcurl", "grpcurl "),
            ("GRPC 1.0", "python", "import asyncio"),
        ):
            async with api.session.post(
                "/api/equivalent", json=asked | {"cells": [cell], "kind": kind}
            ) as response:
                text = (await response.json())["text"]
            assert text.startswith(begin), text
            assert "secret-value" not in text, text
        status, error = await api.rejected("/api/equivalent", asked | {"cells": ["GRPC 1.0"], "kind": "curl"})
        assert status == 400
        assert error["field"] == "kind"
        assert "grpcurl" in error["message"]


async def test_the_findings_of_check() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        *findings, last = await api.lines("/api/check?send=1")
        assert last == {"ok": True, "warnings": sum(one["warning"] for one in findings)}
        assert {"card", "message", "stream"} <= {one["name"] for one in findings}


async def test_the_openapi_document_of_an_interface() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        cells = (await api.get("/api/agent"))["cells"]
        [url] = [one["url"] for one in cells if one["id"] == "HTTP+JSON 1.0"]
        document = await api.get("/api/openapi?cell=HTTP%2BJSON%201.0")
        assert document["servers"] == [{"url": url}]
        assert "/message:send" in document["paths"]
        for cell, text in (("GRPC%201.0", "HTTP+JSON"), ("X", "no cell X")):
            async with api.session.get(f"/api/openapi?cell={cell}") as response:
                error = (await response.json())["error"]
            assert (response.status, error["field"]) == (400, "cell")
            assert text in error["message"]


async def test_a_notification_arrives() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        url = (await api.get("/api/state"))["webhook"]
        config = {"taskPushNotificationConfig": {"url": url, "token": "for-me-only"}}
        async with api.session.get("/api/deliveries") as response:
            await api.call("SendMessage", message("hello") | {"configuration": config}, "JSONRPC 1.0")
            async with asyncio.timeout(PATIENCE):
                delivery = json.loads(await response.content.readline())
        assert delivery["event"]
        assert "for-me-only" not in json.dumps(delivery)


async def test_callers_and_metrics_where_operators_look() -> None:
    async with (
        serving(*DEMO) as running,
        api_of(running) as api,
        api.session.get("/api/admin/usage") as response,
    ):
        assert response.status == 404
    code = "a2a_bridge_tools.demo_agent:agent"
    arguments = ("serve", code, *ANY_PORT, "--ui", "--admin", ":0")
    async with serving(*arguments) as running, api_of(running) as api:
        await api.call("SendMessage", message("hello"), "JSONRPC 1.0")
        usage = await api.get("/api/admin/usage")
        assert [one["operation"] for one in usage["usage"]] == ["SendMessage"]
        async with api.session.get("/api/admin/metrics") as response:
            assert response.status == 200
            assert "a2a" in await response.text()


async def test_ui_for_an_agent_elsewhere_and_in_code(peer_agents: Callable[..., Agent]) -> None:
    peer = peer_agents("1.3.0")
    header = ("-H", "X-Own: not-for-the-page")
    async with serving("ui", peer.http, *header) as running, api_of(running) as api:
        assert (await api.get("/api/state"))["kind"] == "client"
        lines = await api.call("SendMessage", message("hello"), *CURRENT)
        assert {one["verdict"] for one in lines[-1]["comparison"]} <= {"first", "identical", "generated"}
        assert "not-for-the-page" not in json.dumps(lines)
    async with serving("ui", "a2a_bridge_tools.demo_agent:agent") as running, api_of(running) as api:
        assert (await api.get("/api/agent"))["name"] == "Demo"


async def test_several_agents(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    code = "a2a_bridge_tools.demo_agent:agent"
    path.write_text(f'[agents.one]\nagent = "{code}"\n[agents.two]\nagent = "{code}"\n')
    arguments = ("serve", "--config", str(path), *ANY_PORT, "--store", "memory://", "--ui", "--openai")
    async with serving(*arguments) as running, api_of(running) as api:
        state = await api.get("/api/state")
        assert [one["name"] for one in state["agents"]] == ["one", "two"]
        (front,) = (await api.get("/api/agent?agent=two"))["fronts"]
        assert front == {"protocol": "OpenAI (base URL)", "url": f"{running.http}/agents/two/v1"}
        lines = await api.call("SendMessage", message("hello"), *CURRENT, agent="two")
        assert all(one["end"]["error"] is None for one in of(lines, "end"))


def test_generated_values_are_no_loss() -> None:
    first, second = Result(ops.GET_TASK), Result(ops.GET_TASK)
    first.events = [{"text": "run 0b0f1c9e-3f0e-4d0a-9b1e-0f6a5b2c7d11", "state": "a"}]
    second.events = [{"text": "run 7c1d2e3f-0a1b-4c2d-8e3f-9a0b1c2d3e4f", "state": "b"}]
    place = [interface("JSONRPC")]
    found = comparison([Compared("one", "client", place, first), Compared("two", "client", place, second)])
    assert found[1]["verdict"] == "different"
    assert {one["path"]: bool(one["rule"]) for one in found[1]["differences"]} == {
        "[0].state": False,
        "[0].text": True,
    }
