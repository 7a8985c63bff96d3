"""gRPC and gRPC-Web in an ASGI application, byte by byte: cases beyond the contract of bindings."""

import asyncio
import gzip
import json
import struct
import tracemalloc
import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from a2a_bridge.bindings.binding import HostOptions, find
from a2a_bridge.bindings.memory import in_work
from a2a_bridge.core.call import Call
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.dialects import KNOWN, V0_1, V0_2_5, V0_3, V1_0
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from a2a_bridge.testing.probe import answering, yielding
from a2a_bridge_transports._http.asgi import AsgiHost
from tests.patience import PATIENCE
from tests.transports.envoy_scene import envoy
from tests.transports.grpc_scene import SERVICE, channel, details_of, dialling, finished, rejected
from tests.transports.http_scene import Scripted, request, update
from tests.transports.test_http_asgi import browser, running

SEND, GET, WATCH = f"/{SERVICE}/SendMessage", f"/{SERVICE}/GetTask", f"/{SERVICE}/SubscribeToTask"
WEB, TEXT = "application/grpc-web+proto", "application/grpc-web-text"
#: a task id that the scripted service answers with
ASKED = hub.GetTaskRequest(id="7").SerializeToString()


def framed(message: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(message)) + message


def frames(body: bytes) -> list[tuple[int, bytes]]:
    found = []
    while body:
        flags, size = struct.unpack_from(">BI", body)
        found.append((flags, body[5 : 5 + size]))
        body = body[5 + size :]
    return found


def application(service: Scripted, **options: Any) -> AsgiHost:
    host = AsgiHost(HostOptions(**options))
    for kind in ("GRPC", "JSONRPC", "HTTP+JSON"):
        find(kind).mount(host, "", service, KNOWN)
    return host


async def posted(http: httpx.AsyncClient, path: str, message: bytes, media: str = WEB, **headers: str) -> Any:
    body = b64encode(framed(message)) if media == TEXT else framed(message)
    answer = await http.post(path, content=body, headers={"content-type": media, **headers})
    assert (answer.status_code, answer.headers["content-type"]) == (200, media)
    return frames(b64decode(answer.content) if media == TEXT else answer.content)


def trailers(data: bytes) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in data.decode("ascii").split("\r\n") if line)


@pytest.mark.parametrize("media", [WEB, TEXT])
async def test_grpc_web_on_a_server_without_trailers(media: str) -> None:
    service = Scripted(on_stream=yielding(update("one"), update("two")))
    async with running(application(service)) as url, httpx.AsyncClient(base_url=url) as http:
        (_, task), (flags, end) = await posted(http, GET, ASKED, media, a2a_version="1.0")
        assert hub.Task.FromString(task).id == "7"
        assert (flags, end) == (0x80, b"grpc-status: 0\r\n")
        body = b64encode(framed(ASKED)) if media == TEXT else framed(ASKED)
        async with http.stream("POST", WATCH, content=body, headers={"content-type": media}) as answer:
            data = b"".join([part async for part in answer.aiter_raw()])
        if media == TEXT:  # parts with a padding of their own
            data = b"".join(b64decode(part + b"=" * (-len(part) % 4)) for part in _parts(data))
        found = frames(data)
        assert [flag for flag, _ in found] == [0, 0, 0x80]
        assert hub.StreamResponse.FromString(found[0][1]).HasField("artifact_update") or found[0][1]
        assert answer.headers["access-control-allow-origin"] == "*"


def _parts(data: bytes) -> list[bytes]:
    found, held = [], b""
    for at in range(0, len(data), 4):
        held += data[at : at + 4]
        if held.endswith(b"="):
            found.append(held)
            held = b""
    return [*found, held] if held else found


async def test_a_large_request_of_a_stream_is_counted_once() -> None:
    counted = []

    async def script(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        counted.append(in_work.held)
        yield update("one")

    large = hub.SubscribeToTaskRequest(id="7", tenant="x" * 1_000_000).SerializeToString()
    async with browser(application(Scripted(on_stream=script))) as http:
        *_, (_, end) = await posted(http, WATCH, large)
    assert end == b"grpc-status: 0\r\n"
    assert 1_000_000 <= counted[0] < 2_000_000
    assert in_work.held == 0


async def test_a_message_that_comes_too_slowly() -> None:
    data = request("POST", GET, framed(ASKED), Content_Type=WEB)[:-1]
    async with running(application(Scripted(), header_timeout=0.1)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(data)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()  # until the server closes the connection
        writer.close()
    assert b"grpc-status: 3\r\ngrpc-message: the body came too slowly\r\n" in answer


async def test_errors_over_grpc_web() -> None:
    async with browser(
        application(
            Scripted(on_unary=answering(A2AError(Reason.TASK_NOT_FOUND, "no such täsk"))), max_body=1000
        )
    ) as http:
        ((flags, end),) = await posted(http, GET, ASKED)
        assert flags == 0x80
        said = trailers(end)
        assert (said["grpc-status"], said["grpc-message"]) == ("5", "no such t%C3%A4sk")
        assert b"TASK_NOT_FOUND" in b64decode(said["grpc-status-details-bin"] + "==")
        for message, status in ((b"x" * 2000, "8"), (b"\xff\xff", "3")):
            ((_, end),) = await posted(http, GET, message)
            assert trailers(end)["grpc-status"] == status
        ((_, end),) = await posted(http, f"/{SERVICE}/Nothing", b"")
        assert trailers(end)["grpc-status"] == "12"
        ((_, end),) = await posted(http, "/lf.a2a.v9.A2AService/GetTask", b"")
        assert trailers(end)["grpc-status"] == "9"
        ((_, end),) = await posted(http, "/other.Service/Call", b"")
        assert trailers(end)["grpc-status"] == "12"


async def test_the_agent_with_a_service_rejects_its_unknown_operations() -> None:
    host = AsgiHost(HostOptions())
    for dialects in ([V1_0], [V0_3, V0_2_5], [V0_1]):  # the last has no version of gRPC
        find("GRPC").mount(host, "", Scripted(), dialects)
    async with browser(host) as http:
        for path, status, reason in (
            (f"/{SERVICE}/Nothing", "12", b"METHOD_NOT_FOUND"),
            ("/a2a.v1.A2AService/Nothing", "12", b"METHOD_NOT_FOUND"),
            ("/a2a.v9.A2AService/GetTask", "9", b"VERSION_NOT_SUPPORTED"),
        ):
            ((_, end),) = await posted(http, path, b"", **{"a2a-version": ""})
            said = trailers(end)
            assert said["grpc-status"] == status
            assert reason in b64decode(said["grpc-status-details-bin"] + "==")


@each(
    ("body", "headers", "status"),
    [
        (b"", {}, "13"),
        (b"\0\0\0", {}, "13"),
        (framed(ASKED)[:-1], {}, "13"),
        (framed(ASKED) * 2, {}, "13"),
        (framed(ASKED, 2), {}, "13"),
        (framed(gzip.compress(ASKED), 1), {}, "13"),
        (framed(b"no gzip", 1), {"grpc-encoding": "gzip"}, "13"),
        (framed(gzip.compress(b"\0" * 5000), 1), {"grpc-encoding": "gzip"}, "8"),
        (framed(ASKED), {"grpc-encoding": "snappy"}, "12"),
        (framed(zlib.compress(ASKED), 1), {"grpc-encoding": "deflate"}, "0"),
        (framed(gzip.compress(ASKED), 1), {"grpc-encoding": "deflate"}, "13"),
        (framed(gzip.compress(ASKED) + b"more", 1), {"grpc-encoding": "gzip"}, "13"),
        (framed(gzip.compress(ASKED) * 2, 1), {"grpc-encoding": "gzip"}, "13"),
        (framed(gzip.compress(ASKED)[:-1], 1), {"grpc-encoding": "gzip"}, "13"),
        (framed(ASKED), {"x-large": "v" * 20_000}, "8"),
        (framed(gzip.compress(ASKED), 1), {"grpc-encoding": "gzip", "grpc-timeout": "1H"}, "0"),
        (framed(ASKED), {"grpc-encoding": "identity"}, "0"),
    ],
)
async def test_bodies(body: bytes, headers: dict[str, str], status: str) -> None:
    async with browser(application(Scripted(), max_body=1000)) as http:
        answer = await http.post(GET, content=body, headers={"content-type": WEB, **headers})
        assert trailers(frames(answer.content)[-1][1])["grpc-status"] == status


@pytest.mark.parametrize("limit", ["", "soon", "1", "S", "123456789S", "1.5S", "-1S"])
async def test_an_invalid_timeout_is_an_invalid_request(limit: str) -> None:
    service = Scripted()
    async with browser(application(service)) as http:
        for path in (GET, WATCH):
            ((_, end),) = await posted(http, path, ASKED, **{"grpc-timeout": limit})
            said = trailers(end)
            assert said["grpc-status"] == "3"
            assert said["grpc-message"].startswith("grpc-timeout is ")
            assert b"INVALID_REQUEST" in b64decode(said["grpc-status-details-bin"] + "==")
    assert not service.calls


async def test_a_body_of_many_compressed_messages_costs_the_memory_of_one() -> None:
    size = 4 << 20
    bomb = framed(gzip.compress(bytes(size)), 1) * 50
    async with browser(application(Scripted(), max_body=size)) as http:
        tracemalloc.start()
        try:
            headers = {"content-type": WEB, "grpc-encoding": "gzip"}
            answer = await http.post(GET, content=bomb, headers=headers)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert trailers(frames(answer.content)[-1][1])["grpc-status"] == "13"
    assert most < 5 * size


async def test_a_server_without_trailers_rejects_grpc_clearly() -> None:
    service = Scripted()
    async with browser(application(service)) as http:
        for path in (GET, "/other.Service/Call"):
            answer = await http.post(
                path, content=framed(ASKED), headers={"content-type": "application/grpc"}
            )
            assert (answer.status_code, answer.content) == (200, b"")
            assert answer.headers["grpc-status"] == "12"
            assert "trailers" in answer.headers["grpc-message"]
        # A request at such a path that is no gRPC is a request of HTTP+JSON.
        assert (await http.post(GET, json={})).status_code == 404
    assert not service.calls


@pytest.mark.parametrize("cors", ["https://app.example", ""])
async def test_scripts_of_other_origins(cors: str) -> None:
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    async with browser(application(Scripted(), cors=cors)) as http:
        preflight = await http.options(GET, headers=asked)
        assert preflight.headers.get("access-control-allow-origin", "") == cors
        assert preflight.status_code == (204 if cors else 404)
        answer = await http.post(GET, content=framed(ASKED), headers={"content-type": WEB})
        assert answer.headers.get("access-control-allow-origin", "") == cors
        assert ("grpc-status" in answer.headers.get("access-control-expose-headers", "")) == bool(cors)


@asynccontextmanager
async def under_envoy(service: Scripted, **options: Any) -> AsyncIterator[tuple[str, AsgiHost]]:
    app = application(service, **options)
    async with envoy(app) as server:
        yield f"127.0.0.1:{server.listener_port}", app


@pytest.mark.process
async def test_grpc_on_a_server_with_trailers() -> None:
    service = Scripted(on_stream=yielding(update("one"), A2AError(Reason.TASK_NOT_FOUND)))
    async with under_envoy(service, max_body=100_000) as (address, app):
        async with channel(address) as spoken:
            task = await spoken.unary_unary(GET)(ASKED, compression=grpc.Compression.Gzip, timeout=PATIENCE)
            assert hub.Task.FromString(task).id == "7"
            broken = await rejected(spoken.unary_stream(WATCH)(ASKED))
            assert (broken.code(), details_of(broken)[0]) == (grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
            too_large = await rejected(spoken.unary_unary(GET)(b"x" * 500_000))
            assert too_large.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            nothing = await rejected(spoken.unary_unary("/other.Service/Call")(b""))
            assert nothing.code() is grpc.StatusCode.UNIMPLEMENTED

            check = spoken.unary_unary("/grpc.health.v1.Health/Check")
            serving = health_pb2.HealthCheckResponse.SERVING
            name = health_pb2.HealthCheckRequest(service=SERVICE).SerializeToString()
            assert health_pb2.HealthCheckResponse.FromString(await check(name)).status == serving
            assert (await rejected(check(b"\x0a\x01?"))).code() is grpc.StatusCode.NOT_FOUND
            watching = spoken.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            assert health_pb2.HealthCheckResponse.FromString(await watching.read()).status == serving

            async def asked() -> AsyncIterator[bytes]:
                for request in (
                    reflection_pb2.ServerReflectionRequest(list_services=""),
                    reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
                    reflection_pb2.ServerReflectionRequest(file_by_filename="none.proto"),
                ):
                    yield request.SerializeToString()

            path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            said = await finished(spoken.stream_stream(path)(asked()))
            first, second, third = map(reflection_pb2.ServerReflectionResponse.FromString, said)
            assert SERVICE in [one.name for one in first.list_services_response.service]
            assert len(second.file_descriptor_response.file_descriptor_proto) > 3
            assert third.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]

            await app.drain(0.1)
            assert (await rejected(watching)).code() is grpc.StatusCode.UNAVAILABLE
        async with httpx.AsyncClient() as http:  # and gRPC-Web over HTTP/1.1 on the same port
            (_, found), _ = await posted(http, f"http://{address}{GET}", ASKED)
            assert hub.Task.FromString(found).id == "7"
            card = await http.post(f"http://{address}/", content=json.dumps({}))
            assert card.json()["error"]["code"] == -32600


async def test_base64_of_a_stream_may_arrive_in_any_pieces() -> None:
    asked = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    text = b64encode(framed(asked) * 2)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(text), 3):
            yield text[at : at + 3]

    transport = httpx.ASGITransport(application(Scripted()))  # passes each piece on unchanged
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        answer = await http.post(path, content=pieces(), headers={"content-type": TEXT})
    data = b"".join(b64decode(part + b"=" * (-len(part) % 4)) for part in _parts(answer.content))
    *said, (_, end) = frames(data)
    names = [reflection_pb2.ServerReflectionResponse.FromString(one) for _, one in said]
    assert [SERVICE in str(one.list_services_response) for one in names] == [True, True]
    assert end == b"grpc-status: 0\r\n"


@pytest.mark.process
async def test_a_caller_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "a2a_bridge")

    async def held(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    async def endless(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        while True:
            yield update("x" * 1000)

    service = Scripted()
    async with under_envoy(service) as (address, app):
        base = f"http://{address}"
        for script in (held, endless):
            service.on_stream = script
            for kind in ("GRPC", "JSONRPC", "HTTP+JSON"):
                service.closed.clear()
                where = address if kind == "GRPC" else base
                interface = hub.AgentInterface(url=where, protocol_binding=kind, protocol_version="1.0")
                async with find(kind).dial(interface, KNOWN[0], _options()) as near:
                    events = near.stream(_subscription())
                    await anext(events)
                    await events.aclose()
                async with asyncio.timeout(PATIENCE):
                    await service.closed.wait()
                    while app.running:  # noqa: ASYNC110  a set has no event
                        await asyncio.sleep(0.01)
    ours = [one for one in caplog.records if one.name.startswith("a2a_bridge.") and one.levelname != "DEBUG"]
    assert not ours
    left = [one.message for one in caplog.records if "client left" in one.message]
    assert left == ["a client left before its answer was complete"] * 6


@pytest.mark.parametrize(
    ("method", "headers", "starts"),
    [
        ("OPTIONS", {"access-control-request-method": "POST"}, True),
        ("POST", {"content-type": "application/grpc"}, True),
        ("POST", {"content-type": WEB}, True),
        ("POST", {"content-type": WEB}, False),
    ],
)
async def test_a_caller_that_leaves_before_an_error_is_none(
    method: str, headers: dict[str, str], starts: bool
) -> None:
    """Servers raise OSError where a caller has left."""

    async def start() -> None:
        if not starts:
            raise ValueError("no start")

    async def receive() -> Any:
        return {"type": "http.request", "body": framed(b"")}

    async def send(_: Any) -> None:
        raise ConnectionResetError

    app = AsgiHost(HostOptions(), startup=start)
    find("GRPC").mount(app, "", Scripted(), KNOWN)
    scope = {
        "type": "http",
        "method": method,
        "path": SEND,
        "query_string": b"",
        "headers": [(b"host", b"x"), *((name.encode(), value.encode()) for name, value in headers.items())],
    }
    async with asyncio.timeout(PATIENCE):
        await app(scope, receive, send)
    assert not app.running


def _options() -> Any:
    from a2a_bridge.bindings.binding import DialOptions

    return DialOptions()


def _subscription() -> Any:
    from a2a_bridge.core import operations as ops
    from a2a_bridge.core.call import CallContext

    return Call(ops.SUBSCRIBE_TO_TASK, hub.SubscribeToTaskRequest(id="7"), CallContext())


@pytest.mark.process
async def test_our_client_of_0_3() -> None:
    service = Scripted()
    async with under_envoy(service) as (address, _):
        older = next(one for one in KNOWN if one.version == "0.3")
        async with dialling(address, dialect=older) as client:
            assert (await client.get_task(hub.GetTaskRequest(id="7"))).id == "7"
    assert service.calls[-1].context.origin.version == "0.3"
    assert service.calls[-1].context.origin.base_url == f"http://{address}"


@pytest.mark.parametrize("kind", ["JSONRPC", "HTTP+JSON", "gRPC-Web"])
async def test_draining_ends_calls_that_cannot_finish(kind: str) -> None:
    async def held(_: Call[Any, Any]) -> AsyncGenerator[Any, None]:
        yield update("one")
        await asyncio.Event().wait()

    app = application(Scripted(on_stream=held))
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "7"}}
    method, path, body, media = {
        "JSONRPC": ("POST", "/", json.dumps(rpc).encode(), "application/json"),
        "HTTP+JSON": ("GET", "/tasks/7:subscribe", b"", "application/json"),
        "gRPC-Web": ("POST", WATCH, framed(ASKED), WEB),
    }[kind]
    headers = {"content-type": media, "a2a-version": "1.0"}
    async with running(app) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
        async with http.stream(method, path, content=body, headers=headers) as answer:
            parts = answer.aiter_raw()
            await anext(parts)
            await app.drain(0)
            rest = b"".join([part async for part in parts])
        if kind == "gRPC-Web":
            assert trailers(frames(rest)[-1][1])["grpc-status"] == "14"
        else:
            assert b"shutting down" in rest
        assert (await http.get("/readyz")).status_code == 503


async def test_draining_ends_a_request_that_is_still_sent() -> None:
    app = application(Scripted())
    async with running(app) as url, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        head = f"POST {GET} HTTP/1.1\r\nhost: x\r\ncontent-type: {WEB}\r\ncontent-length: 100\r\n\r\n"
        writer.write(head.encode() + framed(ASKED))
        while not app.running:  # noqa: ASYNC110  a set has no event
            await asyncio.sleep(0.01)
        await app.drain(0)
        answer = await reader.readuntil(b"\x80")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"grpc-status: 14\r\n" in await reader.readuntil(b"grpc-message")
        writer.close()
