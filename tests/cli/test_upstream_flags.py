"""`a2a-bridge gateway` and its agent, as processes: credentials, endpoints, cards that change."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import Agent, interface, serve
from a2a_bridge.app.runtime import Server, connect
from a2a_bridge.bindings.binding import DialOptions
from a2a_bridge.codec import dumps, encoder
from a2a_bridge.core.errors import A2AError
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.probe import Probe, answering, yielding
from tests.auth.identity_provider import AUDIENCE, Provider, provider_running
from tests.cli.commands import ANY_PORT, agent, card, command, serving
from tests.gateway.credentials_scene import SECRET, Showing, checking
from tests.nats import running
from tests.patience import PATIENCE
from tests.replicas.test_nats import Tls
from tests.stores.conftest import _postgres_template, postgres_url


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with provider_running() as running:
        yield running


def probe(text: str = "hello") -> Probe:
    made = Probe()
    message = hub.Message(message_id="m", role=hub.ROLE_AGENT, parts=[hub.Part(text=text)])
    made.on_unary = answering(hub.SendMessageResponse(message=message))
    made.on_stream = yielding(hub.StreamResponse(message=message))
    return made


@asynccontextmanager
async def open_for_tokens(provider: Provider) -> AsyncIterator[Server]:
    async with serve(
        Agent(Showing(), name="shows"), [interface("JSONRPC")], options=checking(provider)
    ) as server:
        yield server


async def test_client_credentials_with_a_secret_in_a_file(provider: Provider, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"\ufeff{SECRET}\n", "utf-8")  # with the byte order mark of some editors
    flags = ("--upstream-auth", "client-credentials", "--upstream-client-id", "bridge")
    endpoint = ("--upstream-issuer", provider.issuer, "--upstream-audience", AUDIENCE)
    async with open_for_tokens(provider) as upstream:
        url = f"http://{upstream.http}"
        for given, env in (
            (("--upstream-client-secret", f"@{secret}"), {}),
            ((), {"A2A_BRIDGE_UPSTREAM_CLIENT_SECRET_FILE": str(secret)}),
        ):
            async with serving("gateway", url, *flags, *endpoint, *given, *ANY_PORT, env=env) as gateway:
                for target in (gateway.http, gateway.grpc):
                    async with connect(target) as peer:
                        assert (await peer.send("hi")).text == "bridge"
                done = gateway
            ended = await done.ended()
            for text in (SECRET, "eyJ"):
                assert text not in ended.err
    assert len(provider.grants) == 2


@pytest.mark.parametrize(
    ("flags", "env", "problem"),
    [
        (["--upstream-auth", "client-credentials"], {}, "needs one of --upstream-token-url"),
        (["--upstream-auth", "token-exchange"], {}, "callers that this gateway authenticates"),
        (["--upstream-client-id", "x"], {}, "needs --upstream-auth client-credentials"),
        (["--upstream-auth", "static"], {}, "needs -H"),
        (["--upstream-auth", "none", "-H", "authorization: x"], {}, "header Authorization is configured"),
        (["--endpoint", "nothing"], {}, "neither an http(s) URL"),
        (["--endpoint", "127.0.0.1:9"], {}, "fits none of the agent's interfaces"),
        (
            [
                *("--upstream-auth", "client-credentials", "--upstream-token-url", "http://127.0.0.1:1/"),
                *("--upstream-client-id", "x", "--upstream-client-secret", "visible"),
            ],
            {},
            "the secret itself belongs into A2A_BRIDGE_UPSTREAM_CLIENT_SECRET",
        ),
        (
            ["--upstream-auth", "client-credentials", "--upstream-token-url", "ftp://x"],
            {"A2A_BRIDGE_UPSTREAM_CLIENT_SECRET": "x"},
            "needs its http(s) URL",
        ),
    ],
)
async def test_contradictions_are_rejected(flags: list[str], env: dict[str, str], problem: str) -> None:
    async with agent(probe(), "JSONRPC") as upstream:
        done = await command("gateway", f"http://{upstream.http}", *flags, *ANY_PORT, env=env)
    assert done.code == 2
    words = re.sub(r"[\s│]+", " ", done.err)
    assert problem in words
    assert "visible" not in words


@pytest.mark.parametrize(
    ("kind", "sent"), [("none", None), ("pass-through", "Basic YTpi"), ("static", "Bearer fixed")]
)
async def test_kinds_without_a_token_endpoint(kind: str, sent: str | None) -> None:
    asked = probe()
    flags = ["--upstream-auth", kind, *(["-H", "Authorization: Bearer fixed"] if kind == "static" else [])]
    async with (
        agent(asked, "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", *flags, *ANY_PORT) as gateway,
        connect(gateway.http, options=DialOptions(parameters={"authorization": "Basic YTpi"})) as peer,
    ):
        await peer.send("hi")
    assert asked.last.context.parameters.get("authorization") == sent


async def test_two_endpoints_share_the_calls_and_one_may_die() -> None:
    one, two = probe("one"), probe("two")
    async with agent(two, "JSONRPC") as second, agent(one, "JSONRPC") as first:
        flags = ("--endpoint", f"http://{second.http}")
        async with serving("gateway", f"http://{first.http}", *flags, *ANY_PORT) as gateway:
            async with connect(gateway.http) as peer:
                assert (await peer.send("hi")).text == "one"
                await first.drain(0)
                for _ in range(10):
                    assert (await peer.send("hi")).text == "two"
            running = gateway
        ended = await running.ended()
    assert ended.err.count("an interface cannot be reached, the next one is used") == 1


class Site:
    """A URL with the card of an agent that is elsewhere on this machine, with an ETag."""

    def __init__(self, shown: Server) -> None:
        self.shown = shown
        #: status codes of its answers
        self.answers: list[int] = []
        self.answered = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        except asyncio.IncompleteReadError:
            writer.close()
            return
        body = dumps(encoder(hub.AgentCard)(self.shown.card))
        tag = f'"{self.shown.http}"'
        known = f"if-none-match: {tag}" in head
        self.answers.append(304 if known else 200)
        first = f"HTTP/1.1 {self.answers[-1]} X\r\nETag: {tag}\r\nConnection: close\r\n"
        writer.write(first.encode())
        if known:
            writer.write(b"\r\n")
        else:
            writer.write(
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
        await writer.drain()
        writer.close()
        self.answered.set()


async def test_a_card_that_changes_is_used_without_a_restart() -> None:
    old, new = probe("old"), probe("new")
    changed = card()
    changed.description = "has changed"
    async with agent(old, "JSONRPC") as first, agent(new, "GRPC", shown=changed) as second:
        site = Site(first)
        server = await asyncio.start_server(site, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            flags = ("--card-refresh", "0.2", "--trust-card-urls")
            async with serving("gateway", url, *flags, *ANY_PORT) as gateway, connect(gateway.http) as peer:
                assert (await peer.send("hi")).text == "old"
                async with asyncio.timeout(PATIENCE):
                    while 304 not in site.answers:
                        site.answered.clear()
                        await site.answered.wait()
                    site.shown = second
                    while (await peer.send("hi")).text == "old":
                        pass
                assert (await peer.send("hi")).text == "new"
                async with connect(gateway.http) as again:
                    assert again.card is not None
                    assert again.card.description == "has changed"
                running = gateway
            ended = await running.ended()
    assert ended.err.count("has changed, and is used") == 1
    assert site.answers[0] == 200
    # Where the machine is slow, the changed card may be read more than once.
    assert site.answers.count(200) >= 2


async def test_an_agent_that_is_gone_is_told_with_a_time_to_come_back() -> None:
    problems: list[Any] = []
    async with (
        agent(probe(), "JSONRPC") as upstream,
        serving("gateway", f"http://{upstream.http}", "--retries", "0", *ANY_PORT) as gateway,
        connect(gateway.http) as peer,
    ):
        await upstream.drain(0)
        for _ in range(8):
            with pytest.raises(A2AError) as failed:
                await peer.send("hi")
            problems.append(failed.value.retry_after)
    assert problems[:4] == [None] * 4
    assert problems[-1] is not None


# `--cluster` and its files: each mistake is one clear line, before anything is served; and a NATS that is not


__all__ = ["_postgres_template", "postgres_url"]

AGENT = '''
from a2a_bridge import Run, agent

@agent
async def parrot(run: Run):
    """Repeats."""
    yield run.artifact("said " + run.text)
'''
#: no database listens there: these mistakes are found before it is asked
STORE = ("--store", "postgresql://127.0.0.1:1/x")
NATS = ("--cluster", "nats://127.0.0.1:4222")
ADDRESS = "not an address like nats://HOST:4222 or tls://HOST:4222"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "parrot.py"
    path.write_text(AGENT)
    (tmp_path / "empty").touch()
    (tmp_path / "user.creds").write_text(
        "-----BEGIN NATS USER JWT-----\nx.y.z\n------END NATS USER JWT------\n"
        "-----BEGIN USER NKEY SEED-----\nSUAAAA\n------END USER NKEY SEED------\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--store", "memory://", *NATS), "--cluster: replicas need --store postgresql://"),
        ((*STORE, "--cluster", "http://secret@nats"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster", "nats://u:secret@"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster", "nats://u:secret/x@nats:4222"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster", "nats://nats-1:4222,nats-2:4222"), f"--cluster: {ADDRESS}"),
        ((*STORE, "--cluster-ca", "empty"), "--cluster: the addresses of NATS are missing"),
        ((*STORE, "--cluster-credentials", "empty"), "--cluster: the addresses of NATS are missing"),
        ((*STORE, *NATS, "--cluster-ca", "absent"), "--cluster-ca: absent"),
        ((*STORE, *NATS, "--cluster-credentials", "absent"), "--cluster-credentials: absent"),
        ((*STORE, *NATS, "--cluster-ca", "empty"), "--cluster-ca: empty has no content"),
        ((*STORE, *NATS, "--cluster-credentials", "empty"), "--cluster-credentials: empty has no content"),
        (
            (*STORE, *NATS, "--cluster-credentials", "user.creds"),
            "NATS cannot be used: user.creds has an NKEY seed that is damaged",
        ),
    ],
)
async def test_a_mistake_is_one_line(flags: tuple[str, ...], said: str, target: str) -> None:
    done = await command("serve", target, "--http", "127.0.0.1:0", "--no-grpc", *flags)
    assert done.code == 2, done.err
    assert said in " ".join(done.err.split()), done.err
    assert "Traceback" not in done.err
    assert "secret" not in done.err


@pytest.mark.parametrize(
    ("package", "flags", "said"),
    [
        ("nats", (), 'a2a-transport-bridge[cluster], the package nats: pip install "'),
        (
            "cryptography",
            ("--cluster-credentials", "user.creds"),
            'a2a-transport-bridge[cluster], the package cryptography: pip install "',
        ),
    ],
)
async def test_a_missing_package_is_named_with_its_extra(
    package: str, flags: tuple[str, ...], said: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('none', name='{package}')")
    variables = {"PYTHONPATH": str(tmp_path)}
    done = await command("serve", target, "--no-grpc", *STORE, *NATS, *flags, env=variables)
    assert done.code == 2, done.err
    assert said.split(":", maxsplit=1)[0] in done.err
    assert f'pip install "{said.split(",", maxsplit=1)[0]}"' in done.err
    assert "Traceback" not in done.err


async def test_a_server_with_a_wrong_certificate_stops_no_replica(
    target: str, postgres_url: str, tmp_path: Path
) -> None:
    tls = Tls(tmp_path)
    with running(*tls.arguments) as nats:
        cluster = ("--cluster", f"tls://u:secret@127.0.0.1:{nats.port}", "--cluster-ca", tls.wrong_ca)
        address = ("--http", "127.0.0.1:0", "--no-grpc", "--store", postgres_url)
        async with serving("serve", target, *address, *cluster) as served:
            async with connect(served.http) as peer:
                answer = await peer.send("hello")
                assert answer.task is not None
                assert answer.task.artifacts[0].parts[0].text == "said hello"
            done = await served.ended_by_signal()
    assert done.code == 0
    assert (
        done.err.count("NATS cannot be reached: its certificate is not trusted: self-signed certificate") == 1
    )
    assert "secret" not in done.err
