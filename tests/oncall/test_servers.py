"""On-call, second part: servers with callers, files, stores and agents that go wrong. A row is a server."""

import asyncio
import os
import resource
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_bridge.auth import KeyFile
from tests.auth.identity_provider import AUDIENCE, Provider, new_key, provider_running
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, command
from tests.oncall.rows import NOBODY, Fault, places, run
from tests.oncall.scene import Scene
from tests.patience import PATIENCE
from tests.push.delivery_scene import receiving

SEEN = tuple[int, str]
REFUSED, CALLS = "a2a_bridge_rejected_requests_total", "a2a_bridge_requests_total"
UNAUTHENTICATED = {"code": "UNAUTHENTICATED"}


# --- who may call ---
async def keys(scene: Scene) -> KeyFile:
    file = KeyFile(scene.path("keys.json"))
    scene.names["key"] = file.create("ann").text
    return file


def with_headers(**headers: str) -> Callable[[Scene], Awaitable[SEEN]]:
    """Calls with these headers."""

    async def hurt(scene: Scene) -> SEEN:
        sent = {name.replace("_", "-"): value.format(**scene.names) for name, value in headers.items()}
        return await scene.both(headers=sent)

    return hurt


async def until_http(scene: Scene, status: int, headers: dict[str, str]) -> None:
    async with asyncio.timeout(PATIENCE):
        while await scene.http(headers=headers) != status:
            pass


async def revoked(scene: Scene) -> SEEN:
    sent = {"X-API-Key": scene.names["key"]}
    assert await scene.http(headers=sent) == 200
    scene.made.revoke("ann")
    await until_http(scene, 401, sent)
    return await scene.both(headers=sent)


async def expiring_key(scene: Scene) -> KeyFile:
    file = await keys(scene)
    scene.names["key"] = file.create("bob", expires=time.time() + 0.05).text
    return file


async def key_expires(scene: Scene) -> SEEN:
    sent = {"X-API-Key": scene.names["key"]}
    await until_http(scene, 401, sent)
    return await scene.both(headers=sent)


async def keys_broken(scene: Scene) -> SEEN:
    """A broken file: known keys count."""
    sent = {"X-API-Key": scene.names["key"]}
    assert await scene.http(headers=sent) == 200
    scene.write("keys.json", "junk")
    async with asyncio.timeout(PATIENCE):
        while True:
            assert await scene.http(headers=sent) == 200
            try:
                async with asyncio.timeout(0.2):
                    await scene.logged("the API keys cannot be read again")
            except TimeoutError:
                continue
            return await scene.both(headers=sent)


async def provider(scene: Scene) -> Provider:
    made = await scene.stack.enter_async_context(provider_running())
    scene.names |= {"issuer": made.issuer, "audience": AUDIENCE}
    return made


def with_token(**changes: Any) -> Callable[[Scene], Awaitable[SEEN]]:
    """Calls with a token with other claims."""

    async def hurt(scene: Scene) -> SEEN:
        return await scene.both(headers={"Authorization": f"Bearer {scene.made.token(**changes)}"})

    return hurt


async def with_token_and_patience(scene: Scene) -> SEEN:
    seen = await scene.http(headers={"Authorization": f"Bearer {scene.made.token()}"}), ""
    scene.made.may_answer.set()
    return seen


async def with_other_key(scene: Scene) -> SEEN:
    return await scene.both(headers={"Authorization": f"Bearer {scene.made.token(new_key())}"})


def provider_with(change: Callable[[Provider], None]) -> Callable[[Scene], Awaitable[Provider]]:
    async def prepare(scene: Scene) -> Provider:
        made = await provider(scene)
        change(made)
        return made

    return prepare


JWT = "--jwt-issuer {issuer} --jwt-audience {audience}"


# --- TLS, files, limits ---
async def certificate(scene: Scene) -> None:
    new_identity().written(scene.folder, "server")


async def call(scene: Scene) -> SEEN:
    return await scene.http(), ""


async def certificate_broken(scene: Scene) -> SEEN:
    scene.write("server.pem", "junk")
    async with asyncio.timeout(PATIENCE):
        while True:
            assert await scene.http() == 200
            try:
                async with asyncio.timeout(0.2):
                    await scene.logged("the certificate in use stays")
            except TimeoutError:
                continue
            return await scene.http(), ""


async def configuration(scene: Scene) -> None:
    scene.write("bridge.toml", "max_parts = 1\n")


def reloaded(text: str) -> Callable[[Scene], Awaitable[SEEN]]:
    """Reads another configuration; the old one counts."""

    async def hurt(scene: Scene) -> SEEN:
        scene.write("bridge.toml", text)
        scene.hang_up()
        await scene.logged(
            "the configuration stays as it was" if "max_parts = 1" not in text else "not changed"
        )
        return await scene.http(parts=2), ""

    return hurt


async def two_parts(scene: Scene) -> SEEN:
    return await scene.http(parts=2), ""


def large(size: int) -> Callable[[Scene], Awaitable[SEEN]]:
    async def hurt(scene: Scene) -> SEEN:
        return await scene.both("x" * size)

    return hurt


async def beside_a_stream(scene: Scene) -> SEEN:
    """A call while another one runs."""
    async with working(scene):
        return await scene.both()


@asynccontextmanager
async def working(scene: Scene) -> AsyncIterator[None]:
    """While a call runs."""
    call = asyncio.ensure_future(scene.http("work"))
    try:
        await scene.measured("a2a_bridge_runs", {"phase": "working"}, None)
        yield
    finally:
        call.cancel()
        await asyncio.wait([call])


async def stopped(scene: Scene) -> SEEN:
    """The first signal, while a task works."""
    async with working(scene):
        scene.running.signal()
        await scene.ended()
    return 0, ""


async def stopped_at_once(scene: Scene) -> SEEN:
    """A second signal."""
    async with working(scene):
        scene.running.signal()
        await scene.logged("draining for at most")
        scene.running.signal()
        await scene.ended()
    return 0, ""


async def connected(scene: Scene) -> SEEN:
    """A connection beside the only one that is allowed."""
    host, _, port = scene.running.http.removeprefix("http://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await scene.http()
            except httpx.TransportError:
                break
    writer.close()
    return 0, ""


def calling(text: str, *, grpc: bool = True) -> Callable[[Scene], Awaitable[SEEN]]:
    async def hurt(scene: Scene) -> SEEN:
        return await scene.http(text), await scene.grpc(text) if grpc else ""

    return hurt


# --- the store ---
async def store_moved(scene: Scene) -> SEEN:
    assert await scene.http("task") == 200
    scene.path("tasks.db").rename(scene.path("away.db"))
    async with asyncio.timeout(PATIENCE):
        while await scene.http("task") != 503:
            pass
    return await scene.both("task")


async def disk_full(scene: Scene) -> SEEN:
    """No file of the process can grow any more."""
    assert await scene.http("task") == 200
    process = scene.running.process.pid
    before = resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    async with asyncio.timeout(PATIENCE):
        while await scene.http("task") != 503:
            pass
    seen = await scene.both("task")
    await scene.measured("a2a_bridge_store_available", {}, 0.0)
    resource.prlimit(process, resource.RLIMIT_FSIZE, before)
    async with asyncio.timeout(PATIENCE):
        while await scene.http("task") != 200:
            pass
    return seen


def children_of(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


async def worker_killed(scene: Scene) -> SEEN:
    """One of two workers is killed, as by the kernel."""
    os.kill(children_of(scene.running.process.pid)[0], signal.SIGKILL)
    await scene.logged("another one is started")
    await scene.measured("a2a_bridge_ready", {"worker": "1"}, 1.0)
    return await scene.both()


async def store_taken(scene: Scene) -> SEEN:
    """A second server with the same store."""
    store = f"sqlite:///{scene.path('tasks.db')}"
    done = await command("serve", scene.names["agent"], *ANY_PORT, "--store", store)
    scene.said += done.err
    assert done.code == 2
    return 0, ""


async def newer_store(scene: Scene) -> SEEN:
    """A store that a newer version has upgraded."""
    path = scene.path("newer.db")
    assert (await command("db", "upgrade", f"sqlite:///{path}")).code == 0
    with closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("UPDATE alembic_version SET version_num = '9999'")
    done = await command("serve", scene.names["agent"], *ANY_PORT, "--store", f"sqlite:///{path}")
    scene.said += done.err
    assert done.code == 2
    return 0, ""


async def envoy_taken(scene: Scene) -> SEEN:
    """A server in Envoy on a port that another one has."""
    place = scene.running.http.removeprefix("http://")
    done = await command("serve", scene.names["agent"], "--server", "envoy", "--listen", place)
    scene.said += done.err
    assert done.code == 2
    return 0, ""


# --- notifications ---
async def pushed(scene: Scene) -> SEEN:
    """A task whose receiver rejects."""
    config = {"url": scene.names["hook"]}
    body = {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]},
        "configuration": {"taskPushNotificationConfig": config},
    }
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        reply = await client.post(
            f"{scene.running.http}/message:send", json=body, headers={"A2A-Version": "1.0"}
        )
    return reply.status_code, ""


async def rejecting_receiver(scene: Scene) -> None:
    made = await scene.stack.enter_async_context(receiving())
    made.statuses += [410] * 20
    scene.names["hook"] = made.url


async def no_receiver(scene: Scene) -> None:
    scene.names["hook"] = f"http://{NOBODY}/hook"


ROWS = [
    # ---------------------------------------------------------------- who may call
    Fault("no credentials", "--api-keys {own}/keys.json", with_headers(), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "--log-level info", metric=(REFUSED, UNAUTHENTICATED), prepare=keys),
    Fault("a key that nobody has", "--api-keys {own}/keys.json", with_headers(x_api_key="eve.xxxx"), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "a2a-bridge keys list", metric=(REFUSED, UNAUTHENTICATED), prepare=keys),
    Fault("a key that is revoked", "--api-keys {own}/keys.json", revoked, (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "a2a-bridge keys list", metric=(REFUSED, UNAUTHENTICATED), prepare=keys),
    Fault("a file of keys that breaks", "--api-keys {own}/keys.json", keys_broken, (200, "OK"), ("the last good ones count",), "a2a-bridge keys list --file", metric=(CALLS, {"code": "OK"}), prepare=keys),
    Fault("a token of another issuer", JWT, with_token(iss="https://other.example"), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "--log-level info", metric=(REFUSED, UNAUTHENTICATED), prepare=provider),
    Fault("a token for another audience", JWT, with_token(aud="https://other.example"), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "--log-level info", metric=(REFUSED, UNAUTHENTICATED), prepare=provider),
    Fault("a token that has expired", JWT, with_token(exp=1), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "--log-level info", metric=(REFUSED, UNAUTHENTICATED), prepare=provider),
    Fault("a token signed by somebody else", JWT, with_other_key, (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "--log-level info", metric=(REFUSED, UNAUTHENTICATED), prepare=provider),
    Fault("an identity provider that is down", JWT, with_token(), (503, "UNAVAILABLE"), ("cannot be read, no signature can be checked",), "--jwt-jwks", metric=(REFUSED, {"code": "UNAVAILABLE"}), prepare=provider_with(lambda one: one.answers.update({"/keys": (500, b"down")}))),
    Fault("an identity provider that lies", JWT, with_token(), (503, "UNAVAILABLE"), ("is that of another issuer",), "--jwt-issuer", metric=(REFUSED, {"code": "UNAVAILABLE"}), prepare=provider_with(lambda one: one.answers.update({"/.well-known/openid-configuration": (200, b'{"issuer": "https://evil.example"}')}))),
    Fault("an identity provider without keys", JWT, with_token(), (503, "UNAVAILABLE"), ("it has no key that verifies signatures",), "--jwt-jwks", metric=(REFUSED, {"code": "UNAVAILABLE"}), prepare=provider_with(lambda one: one.answers.update({"/keys": (200, b'{"keys": []}')}))),
    Fault("an identity provider that is slow", JWT, with_token_and_patience, (503, ""), ("cannot be read, no signature can be checked",), "--jwt-issuer", metric=(REFUSED, {"code": "UNAVAILABLE"}), prepare=provider_with(lambda one: one.may_answer.clear())),
    Fault("a key that has expired", "--api-keys {own}/keys.json", key_expires, (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "a2a-bridge keys list", metric=(REFUSED, UNAUTHENTICATED), prepare=expiring_key),
    Fault("a proxy without the header", "--proxy-user-header X-User --forwarded-allow-ips 127.0.0.1", with_headers(), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "--log-level info", metric=(REFUSED, UNAUTHENTICATED)),
    # ---------------------------------------------------------------- TLS and files
    Fault("a certificate that has expired", "--ssl-certfile {folder}/expired.pem --ssl-keyfile {folder}/expired.key", call, (200, ""), ("has expired on",), "renew it"),
    Fault("a certificate that breaks", "--ssl-certfile {own}/server.pem --ssl-keyfile {own}/server.key", certificate_broken, (200, ""), ("the certificate in use stays", "holds no certificate as PEM"), "a2a-bridge reads the files again", prepare=certificate),
    Fault("a new configuration with an unknown key", "--config {own}/bridge.toml", reloaded("max_prats = 2\n"), (400, ""), ("stays as it was", "bridge.toml:1: unknown key max_prats"), "did you mean max_parts?", prepare=configuration),
    Fault("a new configuration that is no TOML", "--config {own}/bridge.toml", reloaded("max_parts = \n"), (400, ""), ("stays as it was", "bridge.toml:1: is not TOML"), "a2a-bridge config check", prepare=configuration),
    Fault("a new configuration for the next start", "--config {own}/bridge.toml", reloaded("max_parts = 1\nmax_body = 7\n"), (400, ""), ("not changed before the next start: max_body",), "a2a-bridge config check", prepare=configuration),
    # ---------------------------------------------------------------- limits
    Fault("too large a request", "--max-body 1000", large(2000), (413, "RESOURCE_EXHAUSTED"), (), "--max-body", metric=(REFUSED, {})),
    Fault("too many parts", "--max-parts 1", two_parts, (400, ""), ("INVALID_PARAMS",), "--max-parts", metric=(CALLS, {"code": "INVALID_PARAMS"})),
    Fault("too many calls", "--max-calls 1", beside_a_stream, (429, "RESOURCE_EXHAUSTED"), ("RESOURCE_EXHAUSTED",), "--max-calls", metric=(CALLS, {"code": "RESOURCE_EXHAUSTED"})),
    Fault("too many connections", "--max-connections 1", connected, (0, ""), (), "--max-connections", metric=("a2a_bridge_rejected_connections_total", {})),
    Fault("too large an answer for the memory", "--max-memory 200000", large(300000), (429, "RESOURCE_EXHAUSTED"), ("RESOURCE_EXHAUSTED",), "--max-memory", metric=("a2a_bridge_memory_limit_bytes", {})),
    # ---------------------------------------------------------------- the agent's code
    Fault("an agent that raises", "", calling("raise"), (500, "INTERNAL"), ("the agent failed to answer a message", "agents.py", "RuntimeError: the agent is broken"), "with the traceback", metric=(CALLS, {"code": "INTERNAL_ERROR"}), command="serve {folder}/agents.py:other", traceback=True),
    Fault("a task whose agent raises", "", calling("raise"), (200, "OK"), ("the executor of task", "agents.py", "RuntimeError: the agent is broken", "state=FAILED"), "with the traceback", metric=(CALLS, {"code": "OK"}), traceback=True),
    Fault("a signal while a task works", "", stopped, (0, ""), ("SIGTERM: draining for at most 0.5 s", "failed: ", "stopped, because of SIGTERM"), "--timeout-graceful-shutdown"),
    Fault("two signals while a task works", "--timeout-graceful-shutdown 600", stopped_at_once, (0, ""), ("SIGTERM: draining for at most 600 s",), "--timeout-graceful-shutdown", code=128 + 15),
    Fault("an agent that blocks the event loop", "", calling("block 2", grpc=False), (200, ""), ("the event loop has been blocked", "agents.py"), "asyncio.to_thread"),
    # ---------------------------------------------------------------- store
    Fault("a store that is moved away", "--store sqlite:///{own}/tasks.db", store_moved, (503, "UNAVAILABLE"), ("nothing more is written",), "a2a-bridge db check", metric=("a2a_bridge_store_available", {}), value=0.0),
    Fault("a store that another process has", "--store sqlite:///{own}/tasks.db", store_taken, (0, ""), ("another process works with",), "--store postgresql://"),
    Fault("a disk that is full", "--store sqlite:///{own}/tasks.db", disk_full, (503, "UNAVAILABLE"), ("the store cannot be written", "the store works again"), "a2a-bridge db check", metric=("a2a_bridge_store_available", {}), value=1.0, traceback=True),
    Fault("a store of a newer version", "", newer_store, (0, ""), ("newer",), "a newer a2a-bridge"),
    # ---------------------------------------------------------------- processes
    Fault("a worker that is killed", "--workers 2 --store memory://", worker_killed, (200, "OK"), ("ended with exit code -9, SIGKILL; another one is started",), "--max-memory", metric=("a2a_bridge_ready", {"worker": "1"}), value=1.0),
    Fault("a port of Envoy that is taken", "", envoy_taken, (0, ""), ("cannot listen",), "--listen"),
    # ---------------------------------------------------------------- notifications
    Fault("a receiver that is not there", "--push-allow 127.0.0.1", pushed, (200, ""), ("a push notification of task", "failed"), "a2a-bridge push list", metric=("a2a_bridge_outbox_notifications", {}), prepare=no_receiver, command="serve {folder}/agents.py:pushing"),
    Fault("a receiver at a private address", "", pushed, (400, ""), ("INVALID_PARAMS",), "--push-allow", metric=(CALLS, {"code": "INVALID_PARAMS"}), prepare=no_receiver, command="serve {folder}/agents.py:pushing"),
    Fault("a receiver that rejects", "--push-allow 127.0.0.1", pushed, (200, ""), ("is given up",), "a2a-bridge push retry", metric=("a2a_bridge_dead_letters", {}), prepare=rejecting_receiver, command="serve {folder}/agents.py:pushing"),
]  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with places(tmp_path_factory.mktemp("oncall")) as found:
        yield found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_fault(row: Fault, names: dict[str, str], tmp_path: Path) -> None:
    await run(row, names, tmp_path)
