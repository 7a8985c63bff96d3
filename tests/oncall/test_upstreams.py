"""On-call, third part: gateways whose agents go wrong, at the start and later. A row is a gateway."""

import asyncio
import shlex
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import new_identity
from tests.cli.commands import command
from tests.oncall.rows import NOBODY, Fault, Mistake, check_fix, check_parts, places, run
from tests.oncall.scene import Behind, Scene, behind
from tests.patience import PATIENCE
from tests.signing.scene import new_key
from tests.signing.test_served import jwks

SEEN = tuple[int, str]
UPSTREAM, REACHABLE = "a2a_bridge_upstream_requests_total", "a2a_bridge_upstream_reachable"


# --- agents, as the flags name them ---
def agent(mode: str = "", **card: Any) -> Callable[[Scene], Awaitable[Behind]]:
    """An agent that misbehaves from the start."""

    async def prepare(scene: Scene) -> Behind:
        made = await scene.stack.enter_async_context(behind(mode, **card))
        scene.names["upstream"] = made.url
        return made

    return prepare


def tls_agent(**names: Any) -> Callable[[Scene], Awaitable[Behind]]:
    async def prepare(scene: Scene) -> Behind:
        certificate, key = new_identity(**names).written(scene.folder, "agent")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        made = await scene.stack.enter_async_context(behind(tls=context))
        scene.names |= {"upstream": made.url, "authority": certificate}
        return made

    return prepare


async def trusting(scene: Scene) -> Behind:
    """An agent without a signature, and keys for signatures."""
    scene.names["keys"] = jwks(scene.folder, new_key())
    return await agent()(scene)


async def with_secret(scene: Scene) -> Behind:
    scene.names["secret"] = scene.write("secret", "s3cret")
    return await agent()(scene)


# --- calls ---
async def call(scene: Scene) -> SEEN:
    return await scene.both()


def becomes(mode: str) -> Callable[[Scene], Awaitable[SEEN]]:
    """The agent changes while the gateway runs."""

    async def hurt(scene: Scene) -> SEEN:
        assert await scene.http() == 200
        scene.made.mode = mode
        return await scene.both()

    return hurt


async def stops(scene: Scene) -> SEEN:
    assert await scene.http() == 200
    await scene.made.stop()
    return await scene.both()


async def breaks_off(scene: Scene) -> SEEN:
    """A stream of the agent that ends in the middle."""
    scene.made.mode = "cuts"
    url, sent = f"{scene.running.http}/message:stream", {"A2A-Version": "1.0"}
    body = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
    async with (
        httpx.AsyncClient(timeout=PATIENCE) as client,
        client.stream("POST", url, json=body, headers=sent) as reply,
    ):
        lines = [line async for line in reply.aiter_lines()]
    assert any("TASK_STATE_WORKING" in line for line in lines), lines
    assert any("error" in line for line in lines), lines
    return reply.status_code, ""


async def card_changes(scene: Scene) -> SEEN:
    scene.made.card["description"] = "has changed"
    await scene.logged("has changed, and is used")
    return await scene.both()


async def card_breaks(scene: Scene) -> SEEN:
    scene.made.mode = "card is html"
    await scene.logged("the agent's card cannot be read again")
    scene.made.mode = ""
    return await scene.both()


# --- several agents ---
async def several(scene: Scene) -> Behind:
    """A file with an agent, and one that is not there."""
    made = await agent()(scene)
    scene.write("bridge.toml", _file(made))
    return made


def _file(made: Behind, more: str = "", gone: str = "") -> str:
    red = f'[agents.red]\nupstream = "{made.url}"\n{more}'
    return f'{red}[agents.blue]\nupstream = "http://{NOBODY}"\n{gone}'


async def call_blue(scene: Scene) -> SEEN:
    assert await scene.http(place="/agents/red") == 200
    return await scene.http(place="/agents/blue"), await scene.grpc(tenant="blue")


async def call_nobody(scene: Scene) -> SEEN:
    return await scene.http(place="/agents/green"), await scene.grpc(tenant="green")


def reloaded(more: str, gone: str, words: str) -> Callable[[Scene], Awaitable[SEEN]]:
    """A file that cannot be used: the agents stay as they are."""

    async def hurt(scene: Scene) -> SEEN:
        scene.write("bridge.toml", _file(scene.made, more, gone))
        scene.hang_up()
        await scene.logged(words)
        return await scene.http(place="/agents/red"), await scene.grpc(tenant="red")

    return hurt


GATEWAY, AGENTS = "gateway {upstream}", "gateway --config {own}/bridge.toml"
TOKENS = "--upstream-auth client-credentials --upstream-client-id bridge --upstream-client-secret @{secret} "

#: the gateway does not start
STARTS = [
    Mistake("no card", "gateway {upstream} {any}", ("no agent card at", "answered 404"), "--card FILE", code=3, prepare=agent("no card")),
    Mistake("a card that is HTML", "gateway {upstream} {any}", ("is not JSON",), "--card FILE", code=1, prepare=agent("card is html")),
    Mistake("a certificate of an unknown authority", "gateway {upstream} {any}", ("certificate",), "--cacert names the authority", code=3, prepare=tls_agent()),
    Mistake("a certificate for another name", "gateway {upstream} {any} --cacert {authority}", ("is for other names than this host's",), "use a name that is in it", code=3, prepare=tls_agent(address="127.0.0.2")),
    Mistake("the agent's certificate has expired", "gateway {upstream} {any} --cacert {authority}", ("has expired",), "renew it", code=3, prepare=tls_agent(begins=-3, ends=-2)),
    Mistake("a card without a signature", "gateway {upstream} {any} --card-keys {keys} --require-signed-card", ("is not signed",), "--card-keys", code=1, prepare=trusting),
    Mistake("an interface that nobody speaks", "gateway {upstream} {any}", ("its protocolBinding 'QUEUE' is unknown",), "--card FILE", code=1, prepare=agent(supportedInterfaces=[{"url": "http://127.0.0.1:9/", "protocolBinding": "QUEUE", "protocolVersion": "1.0"}])),
]  # fmt: skip

ROWS = [
    # ---------------------------------------------------------------- at the start, with a warning
    Fault("a wrong path", "", call, (404, "UNIMPLEMENTED"), ("does not answer as an agent", "HTTP 404"), "--card FILE", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent("has no such path")),
    Fault("a redirect", "", call, (503, "UNAVAILABLE"), ("does not answer as an agent", "HTTP 302", "leads to"), "--card FILE", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent("redirects")),
    Fault("another site", "", call, (500, "INTERNAL"), ("does not answer as an agent", "is not a JSON-RPC response"), "--card FILE", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent("answers HTML")),
    Fault("a card that leads elsewhere", "", call, (200, "OK"), ("instead of the card's http://169.254.169.254/",), "--trust-card-urls", metric=(UPSTREAM, {"code": "OK"}), command=GATEWAY, prepare=agent(supportedInterfaces=[{"url": "http://169.254.169.254/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}])),
    # ---------------------------------------------------------------- later
    Fault("the agent fails", "", becomes("fails"), (500, "INTERNAL"), ("SendMessage failed at", "HTTP 500 from"), "a2a-bridge send", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent()),
    Fault("the agent is stopped", "--retries 0", stops, (503, "UNAVAILABLE"), ("the agent cannot be reached",), "a2a-bridge card", metric=(REACHABLE, {}), value=0.0, command=GATEWAY, prepare=agent()),
    Fault("the agent closes connections", "--retries 0", becomes("closes"), (503, "UNAVAILABLE"), (), "--card FILE", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent()),
    Fault("the agent hangs", "--silence-timeout 0.3", becomes("hangs"), (504, "DEADLINE_EXCEEDED"), ("DEADLINE_EXCEEDED",), "a2a-bridge send", metric=("a2a_bridge_requests_total", {"code": "DEADLINE_EXCEEDED"}), command=GATEWAY, prepare=agent()),
    Fault("a stream breaks off", "", breaks_off, (200, ""), (), "a2a-bridge send", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent()),
    Fault("the agent speaks another version", "", becomes("speaks another version"), (400, "FAILED_PRECONDITION"), ("VERSION_NOT_SUPPORTED",), "--a2a-version", metric=(UPSTREAM, {}), command=GATEWAY, prepare=agent()),
    Fault("the agent rejects the gateway", "", becomes("rejects"), (401, "UNAUTHENTICATED"), ("UNAUTHENTICATED",), "a2a-bridge card", metric=(UPSTREAM, {"code": "UNAUTHENTICATED"}), command=GATEWAY, prepare=agent()),
    Fault("the token endpoint is down", TOKENS + "--upstream-token-url http://{nobody}/token", call, (503, "UNAVAILABLE"), ("gives no token",), "--upstream-token-url", metric=("a2a_bridge_requests_total", {"code": "UNAVAILABLE"}), command=GATEWAY, prepare=with_secret),
    Fault("the card changes", "--card-refresh 0.2", card_changes, (200, "OK"), ("the card of the agent 'Behind' has changed, and is used",), "a2a-bridge card", command=GATEWAY, prepare=agent()),
    Fault("the card breaks", "--card-refresh 0.2", card_breaks, (200, "OK"), ("the agent's card cannot be read again, the last good one counts",), "a2a-bridge card", command=GATEWAY, prepare=agent()),
    # ---------------------------------------------------------------- many agents
    Fault("one of several agents is not there", "", call_blue, (503, "UNAVAILABLE"), ("agent blue cannot be reached, it is tried again",), "[agents.blue]", command=AGENTS, prepare=several),
    Fault("an agent that is not in the file", "", call_nobody, (404, "INVALID_ARGUMENT"), (), "a2a-bridge config check", command=AGENTS, prepare=several),
    Fault("a new file with one host name twice", "", reloaded('host = "a.example"\n', 'host = "a.example"\n', "stays as it was"), (200, "OK"), ("host of [agents.blue] is that of [agents.red], too",), "[agents.blue]", command=AGENTS, prepare=several),
    Fault("a new file with an unknown key", "", reloaded("", 'upstraem = "x"\n', "stays as it was"), (200, "OK"), ("unknown key upstraem of [agents.blue]",), "did you mean upstream?", command=AGENTS, prepare=several),
    Fault("a new file with credentials that are incomplete", "", reloaded("", 'upstream_auth = "static"\n', "stays as it was"), (200, "OK"), ("--upstream-auth",), "--upstream-auth", command=AGENTS, prepare=several),
]  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with places(tmp_path_factory.mktemp("oncall")) as found:
        yield found


@pytest.mark.parametrize("row", STARTS, ids=lambda row: row.name)
async def test_a_start(row: Mistake, names: dict[str, str], tmp_path: Path) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        scene = Scene(tmp_path, {**names, "own": str(tmp_path)}, stack)
        assert row.prepare is not None
        await row.prepare(scene)
        done = await command(*shlex.split(row.line.format(**scene.names)), env={"COLUMNS": "500"})
    assert (done.code, done.out, "Traceback" in done.err) == (row.code, "", False), done.err
    check_parts(row.says, done.err, row.name)
    check_fix(row.fix, done.err, row.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_fault(row: Fault, names: dict[str, str], tmp_path: Path) -> None:
    await run(row, names, tmp_path)
