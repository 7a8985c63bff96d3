"""`a2a-bridge export envoy`: its configuration in a real Envoy, in front of real servers."""

import asyncio
import json
import signal
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest

from a2a_bridge import connect, interface
from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.core.agent_api import Client
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, Running, card, command, serving
from tests.deploy import envoy_process
from tests.deploy.envoy_process import Envoy
from tests.interop.sdk_client import sdk_client
from tests.patience import PATIENCE

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
BEHIND = ("--forwarded-allow-ips", "127.0.0.1", "--drain-window", "3", "--timeout-graceful-shutdown", "4")

AGENT = """
import asyncio, os
from a2a_bridge import Agent
from a2a_bridge.ext import AgentExecutor

class Executor(AgentExecutor):
    "Says which process it is."

    async def execute(self, run):
        if run.text == "chunks":
            for number in range(3):
                yield run.artifact(f"{number} ", artifact_id="a", append=number > 0)
            yield run.status("completed")
        elif run.text == "slow":
            yield run.status("working")
            await asyncio.Event().wait()
        elif run.text == "pause":
            await asyncio.sleep(0.3)
            yield run.reply("late")
        else:
            yield run.reply(str(os.getpid()))

replica = Agent(Executor(), name="Replica", description="Says which process it is")
"""


def replica(one: Running) -> tuple[str, ...]:
    http, grpc = one.http.rpartition(":")[2], one.grpc.rpartition(":")[2]
    return ("--replica", f"127.0.0.1:{http}:{grpc}")


async def exported(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    done = await command(
        *("export", "envoy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments), env=env
    )
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json
    return found


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "replica.py"
    path.write_text(AGENT)
    return f"{path}:replica"


@asynccontextmanager
async def fronted(target: str, folder: Path, *flags: str) -> AsyncIterator[tuple[Envoy, Running, Running]]:
    """Two servers behind an Envoy."""
    async with (
        serving("serve", target, *ANY_PORT, *BEHIND) as one,
        serving("serve", target, *ANY_PORT, *BEHIND) as other,
        envoy_process.running(
            await exported(*replica(one), *replica(other), *flags), folder, ready=2
        ) as envoy,
    ):
        yield envoy, one, other


def addressed(address: str, binding: str) -> hub.AgentInterface:
    return interface(binding, address if binding == "GRPC" else f"http://{address}")


def message(text: str) -> hub.SendMessageRequest:
    part = hub.Part(text=text)
    return hub.SendMessageRequest(message=hub.Message(message_id="m", role=hub.ROLE_USER, parts=[part]))


async def text_of(address: str, binding: str, text: str = "who") -> str:
    async with connect(addressed(address, binding)) as peer:
        return (await peer.send(text)).text


async def test_every_binding_passes_and_a_stopped_replica_gets_no_call(target: str, tmp_path: Path) -> None:
    async with fronted(target, tmp_path) as (envoy, one, other):
        both = {str(one.process.pid), str(other.process.pid)}
        for binding in BINDINGS:
            offered = card(supported_interfaces=[addressed(envoy.address, binding)])
            async with sdk_client(offered, binding) as service:
                client = Client(service)
                reply = await client.send_message(message("who"))
                assert reply.message.parts[0].text in both
                events = [event async for event in client.send_streaming_message(message("chunks"))]
                chunks = [
                    event.artifact_update.artifact.parts[0].text
                    for event in events
                    if event.HasField("artifact_update")
                ]
                assert "".join(chunks) == "0 1 2 "
        seen = {await text_of(envoy.address, binding) for binding in BINDINGS for _ in range(8)}
        assert seen == both

        # From the signal on, no call fails, and soon none reaches the process that ends.
        one.signal()
        done = asyncio.create_task(one.ended())
        answers: Counter[str] = Counter()
        async with asyncio.timeout(PATIENCE):
            while any(sum(hosts.values()) == 2 for hosts in (await envoy.health()).values()):
                for binding in BINDINGS:
                    answers[await text_of(envoy.address, binding)] += 1
        after = {await text_of(envoy.address, binding) for binding in BINDINGS for _ in range(8)}
        assert after == {str(other.process.pid)}
        assert (await done).code == 0
        assert answers.keys() <= both


async def test_an_event_arrives_before_the_next_one(target: str, tmp_path: Path) -> None:
    async with fronted(target, tmp_path) as (envoy, _, _):
        for binding in BINDINGS:
            async with connect(addressed(envoy.address, binding)) as peer, asyncio.timeout(PATIENCE):
                async for event in peer.stream("slow"):
                    if event.HasField("status_update"):
                        break  # the agent never says more


async def test_callers_cannot_forge_what_only_a_proxy_says(target: str, tmp_path: Path) -> None:
    async with fronted(target, tmp_path) as (envoy, _, _), httpx.AsyncClient() as http:
        forged = {
            "Forwarded": "host=evil.example;proto=https",
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-Proto": "https",
            "X-Forwarded-Prefix": "/evil",
            "X-Forwarded-Port": "1",
        }
        url = f"http://{envoy.address}/.well-known/agent-card.json"
        answer = await http.get(url, headers={"Host": "agent.example", **forged})
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        urls = {one["url"] for one in shown["supportedInterfaces"] if one["protocolBinding"] != "GRPC"}
        assert {one.rstrip("/") for one in urls} == {"http://agent.example"}
        # A caller must not set a time limit, or switch retries on, either.
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "pause"}]}},
        }
        headers = {"A2A-Version": "1.0", "x-envoy-upstream-rq-timeout-ms": "50", "x-envoy-retry-on": "5xx"}
        answer = await http.post(f"http://{envoy.address}/", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["result"]["message"]["parts"][0]["text"] == "late"


async def test_no_replica(target: str, tmp_path: Path) -> None:
    async with fronted(target, tmp_path) as (envoy, one, other), httpx.AsyncClient() as http:
        for killed in (one, other):
            killed.signal(signal.SIGKILL)
            await killed.ended()
        await envoy.until(0)
        assert (await http.get(f"http://{envoy.address}/.well-known/agent-card.json")).status_code == 503


async def test_tls_on_both_sides(target: str, tmp_path: Path) -> None:
    (outer, outer_key), (inner, inner_key) = (
        new_identity().written(tmp_path, name) for name in ("outer", "inner")
    )
    tls = ("--ssl-certfile", inner, "--ssl-keyfile", inner_key)
    config = tmp_path / "bridge.toml"
    config.write_text(f'ssl_certfile = "{inner}"\nssl_keyfile = "{inner_key}"\n')
    async with serving("serve", target, *ANY_PORT, *BEHIND, *tls) as one:
        document = await exported(
            *replica(one),
            *("--config", str(config), "--replica-name", "127.0.0.1", "--replica-cacert", inner),
            *("--ssl-certfile", outer, "--ssl-keyfile", outer_key),
        )
        async with envoy_process.running(document, tmp_path, ready=1) as envoy:
            trusting = DialOptions(tls=TlsFiles(ca=outer))
            for binding in BINDINGS:
                url = f"{'grpcs' if binding == 'GRPC' else 'https'}://{envoy.address}"
                async with connect(interface(binding, url), options=trusting) as peer:
                    assert (await peer.send("who")).text == str(one.process.pid)
            context = ssl.create_default_context(cafile=outer)
            async with httpx.AsyncClient(verify=context) as http:
                shown = (await http.get(f"https://{envoy.address}/.well-known/agent-card.json")).json()
            assert shown["supportedInterfaces"][0]["url"].startswith(f"https://{envoy.address}")


async def test_several_agents_by_path_and_by_host(target: str, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    tables = [f'[agents.{name}]\nagent = "{target}"\n' for name in ("red", "blue")]
    config.write_text(tables[0] + 'host = "red.example"\ngrpc = "127.0.0.1:0"\n' + tables[1])
    async with serving("serve", "--config", str(config), *ANY_PORT, *BEHIND) as one:
        # Their ports, as an operator would write them.
        done = await command("card", "get", "-a", f"{one.http}/agents/red", "-o", "json")
        own = next(i["url"] for i in done.json["supportedInterfaces"] if i["protocolBinding"] == "GRPC")
        config.write_text(config.read_text().replace('grpc = "127.0.0.1:0"', f'grpc = "{own}"'))
        document = await exported(*replica(one), "--config", str(config))
        async with envoy_process.running(document, tmp_path, ready=1) as envoy:
            pid = str(one.process.pid)
            for name in ("red", "blue"):
                for binding in BINDINGS[:2]:
                    url = f"http://{envoy.address}/agents/{name}"
                    assert (await _say(interface(binding, url))) == pid
            assert (await _say(interface("GRPC", envoy.address, tenant="blue"))) == pid
            # A host name leads to the port that an agent has for callers of 0.x, who send no tenant.
            options = [("grpc.default_authority", "red.example")]
            async with grpc.aio.insecure_channel(envoy.address, options) as channel:
                send = channel.unary_unary(
                    "/lf.a2a.v1.A2AService/SendMessage",
                    request_serializer=hub.SendMessageRequest.SerializeToString,
                    response_deserializer=hub.SendMessageResponse.FromString,
                )
                assert (await send(message("who"), timeout=PATIENCE)).message.parts[0].text == pid
            async with httpx.AsyncClient(base_url=f"http://{envoy.address}") as http:
                at_host = await http.get("/.well-known/agent-card.json", headers={"Host": "red.example:8443"})
                assert at_host.status_code == 200
                assert (await http.get("/.well-known/agent-card.json")).status_code == 404
                assert (await http.get("/agents/none/.well-known/agent-card.json")).status_code == 404
            names = [one["name"] for one in _routes(document)]
            assert names == ["red", "any"]
            clusters = document["static_resources"]["clusters"]
            assert "replicas_grpc_red" in [one["name"] for one in clusters]


async def _say(to: hub.AgentInterface) -> str:
    async with connect(to) as peer:
        return (await peer.send("who")).text


def _routes(document: dict[str, Any]) -> list[dict[str, Any]]:
    manager = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    hosts: list[dict[str, Any]] = manager["typed_config"]["route_config"]["virtual_hosts"]
    return hosts


async def test_a_public_url_with_a_path(target: str, tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    async with AsyncExitStack() as stack:
        flags = (*ANY_PORT, *BEHIND, "--public-url", "http://agent.example/a2a")
        one = await stack.enter_async_context(serving("serve", target, *flags))
        config.write_text('public_url = "http://agent.example/a2a/"\n')
        document = await exported(*replica(one), "--config", str(config))
        envoy = await stack.enter_async_context(envoy_process.running(document, tmp_path, ready=1))
        for binding in BINDINGS[:2]:
            assert await text_of(f"{envoy.address}/a2a", binding) == str(one.process.pid)
        async with httpx.AsyncClient() as http:
            shown = await http.get(f"http://{envoy.address}/a2a/.well-known/agent-card.json")
            assert shown.json()["supportedInterfaces"][0]["url"].startswith("http://agent.example/a2a")


async def test_only_reads_are_sent_twice() -> None:
    document = await exported("--replica", "a", "--replica", "b:81", "--replica", "[::1]:82:83")
    for host in _routes(document):
        for route in host["routes"]:
            reads = any(one["name"] == ":method" for one in route["match"].get("headers", []))
            assert ("retry_policy" in route["route"]) == reads
            assert route["route"]["timeout"] == route["route"]["idle_timeout"] == "0s"
    clusters = {one["name"]: one for one in document["static_resources"]["clusters"]}
    addresses = {name: json.dumps(one["load_assignment"]) for name, one in clusters.items()}
    assert '"address": "b", "port_value": 81' in addresses["replicas_http"]
    assert '"address": "b", "port_value": 50051' in addresses["replicas_grpc"]
    assert '"address": "::1", "port_value": 83' in addresses["replicas_grpc"]


async def test_without_http_the_health_service_of_grpc_is_asked(target: str, tmp_path: Path) -> None:
    async with serving("serve", target, "--no-http", "--grpc", "127.0.0.1:0") as one:
        document = await exported("--replica", one.grpc, env={"A2A_BRIDGE_NO_HTTP": "1"})
        async with envoy_process.running(document, tmp_path, ready=1) as envoy:
            assert await text_of(envoy.address, "GRPC") == str(one.process.pid)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--replica"),
        (["--replica", "a:b"], "is not HOST"),
        (["--replica", "a:1:2:3"], "is not HOST"),
        (["--replica", "a", "--listen", "host.example:1"], "no IP address"),
        (["--replica", "a", "--ssl-keyfile", "k"], "needs --ssl-certfile"),
        (["--replica", "a", "--replica-name", "n"], "have no TLS"),
        (["--replica", "a", "--config", "absent.toml"], "absent.toml"),
    ],
)
async def test_what_cannot_be_exported(arguments: list[str], text: str) -> None:
    done = await command("export", "envoy", *arguments)
    assert done.code == 2
    assert text in " ".join(done.err.replace("│", " ").split())
    assert not done.out


async def test_notes_name_what_the_replicas_lack() -> None:
    done = await command("export", "envoy", "--replica", "a")
    assert [
        flag for flag in ("--forwarded-allow-ips", "--public-grpc", "--drain-window") if flag in done.err
    ] == ["--forwarded-allow-ips", "--public-grpc", "--drain-window"]
    settings = {
        "A2A_BRIDGE_FORWARDED_ALLOW_IPS": "10.0.0.1",
        "A2A_BRIDGE_PUBLIC_GRPC": "agent.example:443",
        "A2A_BRIDGE_DRAIN_WINDOW": "5",
    }
    assert not (await command("export", "envoy", "--replica", "a", env=settings)).err
    settings |= {"A2A_BRIDGE_MCP": "1", "A2A_BRIDGE_OPENAI": "1"}
    assert not (await command("export", "envoy", "--replica", "a", env=settings)).err
    done = await command("export", "envoy", "--replica", "a", "--replica", "b", env=settings)
    assert "--mcp and --openai: sessions and conversations are those of one replica" in done.err
