"""A server and a gateway with metrics, traces and a listener for operators, over real sockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc.aio
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from prometheus_client.parser import text_string_to_metric_families

from a2a_bridge import Agent, add_to_server, agent, asgi, connect, interface, serve
from a2a_bridge.app.admin import agent_gauges
from a2a_bridge.app.agent import AgentApp
from a2a_bridge.app.planning import VERSIONS
from a2a_bridge.app.runtime import ServeOptions, Server, serve_gateway
from a2a_bridge.auth import ApiKeys, Authentication, KeyFile
from a2a_bridge.bindings.binding import DialOptions, HostOptions, ListenAddress, names
from a2a_bridge.cards import select
from a2a_bridge.core.errors import A2AError
from a2a_bridge.gateway.connections import UpstreamOptions
from a2a_bridge.hosting import Run
from a2a_bridge.hosting.phases import Phase
from a2a_bridge.middleware import Metrics, Usage
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.stores.memory import MemoryStore
from tests.middleware.test_tracing import PARENT, TRACE, TRACEPARENT, Traces, code
from tests.patience import PATIENCE
from tests.runtime.scene import BINDINGS

EVERY = [interface(binding, version=version) for binding in BINDINGS for version in VERSIONS]


def echo() -> Agent:
    @agent
    async def echoing(run: Run) -> AsyncIterator[Any]:
        """Answers; `wait` works until it is cancelled."""
        yield run.status("working")
        if run.text == "wait":
            await asyncio.Event().wait()
        yield run.reply(run.text)

    return echoing


@asynccontextmanager
async def bridged(options: ServeOptions) -> AsyncIterator[tuple[Server, Server]]:
    """A 1.0 agent over gRPC, and a gateway to it."""
    async with (
        serve(echo(), [interface("GRPC")], options) as agent_,
        serve_gateway(agent_.card, select(agent_.card, known=names()), EVERY, options) as gateway,
    ):
        yield agent_, gateway


async def scraped(server: Server) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = (await page(server, "/metrics")).text
    return {
        (one.name, tuple(sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


async def page(server: Server, path: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
        return await client.get(f"http://{server.admin}{path}")


def sample(found: Any, name: str, **labels: str) -> float | None:
    value: float | None = found.get((f"a2a_bridge_{name}", tuple(sorted(labels.items()))))
    return value


def chain(spans: tuple[ReadableSpan, ...]) -> list[tuple[SpanKind, str, str]]:
    """The spans of one trace from the root: each has the one before as its parent."""
    assert len({span.context.trace_id for span in spans}) == 1
    by_parent = {span.parent.span_id if span.parent else 0: span for span in spans}
    first = next(parent for parent in by_parent if parent not in {span.context.span_id for span in spans})
    found: list[tuple[SpanKind, str, str]] = []
    span: ReadableSpan | None = by_parent[first]
    while span is not None:
        attributes = span.attributes or {}
        found.append((span.kind, str(attributes["a2a.binding"]), str(attributes["a2a.version"])))
        span = by_parent.get(span.context.span_id)
    assert len(found) == len(spans)
    return found


FOUR = [
    (SpanKind.CLIENT, "JSONRPC", "0.3"),
    (SpanKind.SERVER, "JSONRPC", "0.3"),
    (SpanKind.CLIENT, "GRPC", "1.0"),
    (SpanKind.SERVER, "GRPC", "1.0"),
]


async def test_a_call_through_a_gateway_is_one_trace_with_four_spans() -> None:
    traces = Traces()
    async with (
        bridged(ServeOptions(tracing=traces.provider)) as (_, gateway),
        connect(
            f"http://{gateway.http}", version="0.3", options=DialOptions(tracing=traces.provider)
        ) as peer,
    ):
        assert (await peer.send("Bern")).state == "completed"
        assert chain(traces.spans) == FOUR
        traces.exporter.clear()
        traces.count.started = traces.count.ended = 0
        async with aclosing(peer.stream("Bern")) as events:
            assert [event async for event in events]
    assert (chain(traces.spans), {code(span) for span in traces.spans}) == (FOUR, {"OK"})


async def test_the_context_goes_on_where_nothing_of_the_caller_is_forwarded() -> None:
    traces = Traces()
    options = ServeOptions(tracing=traces.provider)
    async with (
        serve(echo(), [interface("GRPC")], options) as agent_,
        connect(agent_.card, options=DialOptions(forward=frozenset(), tracing=traces.provider)) as peer,
    ):
        await peer.send("Bern")
    assert chain(traces.spans) == FOUR[2:]


async def test_the_context_of_other_callers_is_read_from_headers_metadata_and_messages() -> None:
    traces = Traces()
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    async with bridged(ServeOptions(tracing=traces.provider)) as (_, gateway):
        async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
            for headers, metadata in (({"Traceparent": TRACEPARENT}, {}), ({}, {"traceparent": TRACEPARENT})):
                message["metadata"] = metadata
                reply = await client.post(
                    f"http://{gateway.http}/", content=json.dumps(body), headers=headers
                )
                assert reply.json()["result"]["status"]["state"] == "completed"
                served, _, outer = traces.spans
                assert outer.parent is not None
                assert (f"{outer.context.trace_id:032x}", f"{outer.parent.span_id:016x}") == (TRACE, PARENT)
                assert f"{served.context.trace_id:032x}" == TRACE
                traces.exporter.clear()
                traces.count.started = traces.count.ended = 0
        async with grpc.aio.insecure_channel(str(gateway.grpc)) as channel:
            method = channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
            request = hub.GetTaskRequest(id="none").SerializeToString()
            with pytest.raises(grpc.aio.AioRpcError):
                await method(request, metadata=(("traceparent", TRACEPARENT),), timeout=PATIENCE)
    assert {f"{span.context.trace_id:032x}" for span in traces.spans} == {TRACE}
    assert [code(span) for span in traces.spans] == ["TASK_NOT_FOUND"] * 3


async def test_a_client_that_leaves_ends_all_spans() -> None:
    traces = Traces()
    async with bridged(ServeOptions(tracing=traces.provider, grace=0.1)) as (_, gateway):
        async with connect(f"http://{gateway.http}") as peer, aclosing(peer.stream("wait")) as events:
            await anext(events)
        resumed = connect(f"http://{gateway.http}")
        async with resumed as peer:
            tasks = await peer.list_tasks(hub.ListTasksRequest())
            async with aclosing(peer.subscribe(tasks.tasks[0], after="0")) as events:
                await anext(events)
    # Both servers have drained: what has begun has ended, once.
    found = [(span.kind, (span.attributes or {})["rpc.method"]) for span in traces.spans]
    assert (SpanKind.SERVER, "SendStreamingMessage") in found
    assert (SpanKind.SERVER, "SubscribeToTask") in found


async def test_the_executor_sees_its_span() -> None:
    traces, seen = Traces(), []

    @agent
    async def looking(run: Run) -> AsyncIterator[Any]:
        seen.append(trace.get_current_span().get_span_context().span_id)
        yield run.reply("ok")

    async with (
        serve(looking, [interface("JSONRPC")], ServeOptions(tracing=traces.provider)) as server,
        connect(f"http://{server.http}") as peer,
    ):
        await peer.send("x")
    assert seen == [traces.only.context.span_id]


async def test_the_metrics_of_an_agent_and_of_a_gateway() -> None:
    options = ServeOptions(admin=ListenAddress(), grace=0.1)
    async with (
        bridged(options) as (agent_, gateway),
        connect(f"http://{gateway.http}", version="0.3") as peer,
    ):
        await peer.send("Bern")
        async with aclosing(peer.stream("wait")) as events:
            await anext(events)
            near, far = await scraped(gateway), await scraped(agent_)
    caller = {"agent": "echoing", "binding": "JSONRPC", "version": "0.3"}
    between = {"agent": "echoing", "binding": "GRPC", "version": "1.0"}
    assert sample(near, "requests_total", **caller, operation="SendMessage", code="OK") == 1
    assert sample(near, "upstream_requests_total", **between, operation="SendMessage", code="OK") == 1
    assert sample(far, "requests_total", **between, operation="SendMessage", code="OK") == 1
    assert sample(near, "streams_open", **caller, operation="SendStreamingMessage") == 1
    assert sample(near, "upstream_streams_open", **between, operation="SendStreamingMessage") == 1
    assert sample(near, "upstream_reachable", **between, interface="1") == 1
    assert sample(near, "memory_limit_bytes", agent="echoing") == options.store_options.max_memory
    assert sample(far, "runs", agent="echoing", phase="working") == 1
    assert sample(far, "store_available", agent="echoing") == 1
    assert (sample(far, "ready"), sample(near, "ready")) == (1, 1)
    assert any(name == "process_open_fds" for name, _ in far)


async def test_an_agent_that_is_gone_shows_in_the_metrics_of_its_gateway() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        card = hub.AgentCard(
            name="gone", supported_interfaces=[interface("GRPC", f"127.0.0.1:{closed.getsockname()[1]}")]
        )
        options = ServeOptions(admin=ListenAddress())
        async with (
            serve_gateway(card, select(card, known=names()), [interface("JSONRPC")], options) as gateway,
            connect(f"http://{gateway.http}") as peer,
        ):
            with pytest.raises(A2AError):
                await peer.get_task(hub.GetTaskRequest(id="t"))
            found = await scraped(gateway)
    cell = {"agent": "gone", "operation": "GetTask", "code": "UNAVAILABLE", "version": "1.0"}
    assert sample(found, "requests_total", **cell, binding="JSONRPC") == 1
    # Each attempt counts.
    attempts = 1 + UpstreamOptions().retries
    assert sample(found, "upstream_requests_total", **cell, binding="GRPC") == attempts
    assert sample(found, "upstream_retries_total", agent="gone") == attempts - 1
    place = {"agent": "gone", "binding": "GRPC", "version": "1.0", "interface": "1"}
    assert sample(found, "upstream_circuit_open", **place) == 0
    assert (
        sample(found, "upstream_reachable", agent="gone", binding="GRPC", version="1.0", interface="1") == 0
    )


async def test_the_writes_of_a_store_and_its_outbox(tmp_path: Path) -> None:
    options = ServeOptions(admin=ListenAddress(), store=f"sqlite:///{tmp_path}/tasks.db")
    async with serve(echo(), EVERY, options) as server, connect(f"http://{server.http}") as peer:
        await peer.send("x")
        found = await scraped(server)
    assert sample(found, "store_commit_seconds_count", agent="echoing")
    assert (sample(found, "store_changes_total", agent="echoing") or 0) >= 1
    assert (sample(found, "store_commit_seconds_sum", agent="echoing") or 0) > 0
    for name in ("outbox_notifications", "outbox_oldest_seconds", "dead_letters", "store_queued_bytes"):
        assert sample(found, name, agent="echoing") == 0


async def test_callers_who_are_rejected_before_a_call_count(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.create("ann")
    options = ServeOptions(admin=ListenAddress(), authentication=Authentication([ApiKeys(keys)]))
    async with serve(echo(), EVERY, options) as server:
        before = await scraped(server)
        for binding in BINDINGS:
            place = str(server.grpc) if binding == "GRPC" else f"http://{server.http}"
            async with connect(interface(binding, place, version="1.0")) as peer:
                with pytest.raises(A2AError) as caught:
                    await peer.get_task(hub.GetTaskRequest(id="t"))
                assert caught.value.reason.name == "UNAUTHENTICATED"
        after = await scraped(server)
    for binding in BINDINGS:
        labels = {"binding": binding, "version": "1.0", "code": "UNAUTHENTICATED"}
        counted = (sample(after, "rejected_requests_total", **labels) or 0) - (
            sample(before, "rejected_requests_total", **labels) or 0
        )
        assert counted == 1, binding


async def test_connections_beyond_the_limit_count() -> None:
    options = ServeOptions(admin=ListenAddress(), host=HostOptions(max_connections=1))
    async with serve(echo(), [interface("JSONRPC")], options) as server:
        assert server.http is not None
        before = sample(await scraped(server), "rejected_connections_total", family="http")
        assert before is not None
        reader, writer = await asyncio.open_connection(server.http.host, server.http.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await asyncio.wait_for(reader.readline(), PATIENCE)).startswith(b"HTTP/1.1 200")
        late, also = await asyncio.open_connection(server.http.host, server.http.port)
        assert await asyncio.wait_for(late.read(), PATIENCE) == b""
        assert sample(await scraped(server), "rejected_connections_total", family="http") == before + 1
        for one in (writer, also):
            one.close()
            await one.wait_closed()


async def test_a_server_of_the_application_has_metrics_and_no_listener_of_ours() -> None:
    grpc_server = grpc.aio.server()
    with pytest.raises(ValueError, match="admin"):
        add_to_server(echo(), grpc_server, options=ServeOptions(admin=ListenAddress()))
    metrics = Metrics()
    engine = add_to_server(echo(), grpc_server, options=ServeOptions(metrics=metrics))
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    await grpc_server.start()
    try:
        async with connect(f"127.0.0.1:{port}") as peer:
            await peer.send("x")
        text = (await metrics.exposition())[1].decode()
    finally:
        await grpc_server.stop(0)
        await engine.close(0)
    labels = 'agent="echoing",binding="GRPC",code="OK",operation="SendMessage",version="1.0"'
    assert f"a2a_bridge_requests_total{{{labels}}} 1.0" in text
    assert 'a2a_bridge_runs{agent="echoing",phase="working"}' in text


async def test_phases_are_shown_from_the_first_run_in_them_on() -> None:
    """So that a server of many agents does not show seven zeros for each."""
    runs = [SimpleNamespace(phase=Phase.CANCELING, backlog=0)]
    engine = SimpleNamespace(runs=runs, left=0)
    gauges = agent_gauges("one", cast(AgentApp, SimpleNamespace(engine=engine, store=MemoryStore())))
    shown = []
    for _ in range(2):
        (found,) = [one for one in await gauges() if one.name == "a2a_bridge_runs"]
        shown.append({one.labels["phase"]: one.value for one in found.samples})
        runs.clear()
    assert shown == [{"working": 0.0, "canceling": 1.0}, {"working": 0.0, "canceling": 0.0}]


async def test_probes_tell_the_start_and_the_end() -> None:
    options = ServeOptions(admin=ListenAddress())
    async with serve(echo(), EVERY, options) as server:
        for path in ("/livez", "/readyz", "/startupz"):
            reply = await page(server, path)
            assert (reply.status_code, reply.text) == (200, "ok\n")
        assert (await page(server, "/readyz?verbose")).text == "ok\ntasks to take over: 0\n"
        assert (await page(server, "/")).status_code == 404
        await server.drain(0)
        reply = await page(server, "/readyz")
        assert (reply.status_code, reply.text) == (503, "draining\n")
        assert (await page(server, "/livez")).status_code == 200
        assert sample(await scraped(server), "ready") == 0


async def test_the_listener_is_there_while_the_server_starts() -> None:
    """A store takes its time: probes answer meanwhile, with 503 where that is the truth."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    opening, goes_on = asyncio.Event(), asyncio.Event()

    class Slow:
        async def execute(self, run: Run) -> AsyncIterator[Any]:
            yield run.reply("x")

    from a2a_bridge.app import agent as agent_app
    from a2a_bridge.app import runtime

    original = runtime.agent_app

    @asynccontextmanager
    async def slow(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
        opening.set()
        await goes_on.wait()
        async with original(*arguments, **named) as one:
            yield one

    assert agent_app.agent_app is original
    patched = pytest.MonkeyPatch()
    patched.setattr(runtime, "agent_app", slow)
    try:
        context = serve(Agent(Slow(), name="slow"), EVERY, ServeOptions(admin=ListenAddress(port=port)))
        starting = asyncio.create_task(context.__aenter__())
        await asyncio.wait_for(opening.wait(), PATIENCE)
        async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
            answers = {}
            for path in ("livez", "readyz", "startupz"):
                answers[path] = (await client.get(f"http://127.0.0.1:{port}/{path}")).status_code
        assert answers == {"livez": 200, "readyz": 503, "startupz": 503}
        goes_on.set()
        server = await starting
        assert (await page(server, "/startupz")).status_code == 200
        await context.__aexit__(None, None, None)
    finally:
        patched.undo()


async def test_an_asgi_application_has_the_listener_too() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    application = asgi(echo(), EVERY, ServeOptions(admin=ListenAddress(port=port)))
    await application.start()
    try:
        assert application.admin == ListenAddress(port=port)
        async with httpx.AsyncClient(verify=False, timeout=PATIENCE) as client:  # noqa: S501
            assert "a2a_bridge_ready 1.0" in (await client.get(f"http://127.0.0.1:{port}/metrics")).text
            application.draining = True
            assert (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 503
    finally:
        await application.drain(0)


async def test_the_bytes_of_requests_and_answers_count() -> None:
    options = ServeOptions(admin=ListenAddress())
    text = "x" * 10_000
    async with serve(echo(), EVERY, options) as server:
        for binding in BINDINGS:
            place = str(server.grpc) if binding == "GRPC" else f"http://{server.http}"
            async with connect(interface(binding, place, version="1.0")) as peer:
                before = await scraped(server)
                await peer.send(text)
                async for _ in peer.stream(text):
                    pass
                after = await scraped(server)
            # Both answers have the text twice, in the message of the caller and in what the agent says.
            for name, texts in (("received_bytes_total", 2), ("sent_bytes_total", 4)):
                grown = (sample(after, name, binding=binding) or 0) - (
                    sample(before, name, binding=binding) or 0
                )
                assert texts * len(text) <= grown <= texts * len(text) + 5_000, (binding, name)


async def test_a_web_page_does_not_reach_operators_by_a_name_of_its_own() -> None:
    options = ServeOptions(admin=ListenAddress(), usage=Usage())
    async with serve(echo(), options=options) as server:
        assert server.admin is not None
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for path in ("/metrics", "/usage", "/readyz"):
                for host, status in (
                    (f"evil.example:{server.admin.port}", 400),
                    (str(server.admin), 200),
                    (f"localhost:{server.admin.port}", 200),
                ):
                    reply = await client.get(f"http://{server.admin}{path}", headers={"Host": host})
                    assert reply.status_code == status
