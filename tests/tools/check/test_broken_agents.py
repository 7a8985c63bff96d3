"""Each agent with one fault gets exactly the ✗ of that fault, with its fix."""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from a2a_bridge import agent, interface, serve
from a2a_bridge.bindings.binding import DialOptions, TlsFiles
from a2a_bridge.cli.target import parse
from a2a_bridge.ext import ServeOptions
from a2a_bridge_tools.check.inspection import Finding, Inspection
from a2a_bridge_tools.check.table import inspect
from tests.certificates import new_identity
from tests.patience import PATIENCE
from tests.peers.processes import AGENTS, Agent
from tests.tools.check.scripted import Script, scripted

CARD, OLD = "/.well-known/agent-card.json", "/.well-known/agent.json"
BOTH = ("JSONRPC", "HTTP+JSON")
BEARER = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
ASKS: dict[str, Any] = {"securitySchemes": BEARER, "securityRequirements": [{"schemes": {"bearer": {}}}]}
RPC, SAYS_1_0 = "JSONRPC 1.0", {"protocolVersion": "1.0"}
#: seconds for calls that are never answered
SHORT = 0.3

#: the step that is ✗ -> fault -> the agent, and what the fix names
BY_STEP: Mapping[str, Mapping[str, tuple[Script, str]]] = {
    "card": {
        "card at a path of its own": (Script(cards={"/agent-card.json": {}}), CARD),
        "card of 1.0 at the path of 0.2": (Script(cards={OLD: {}}), f"serve it at {CARD} too"),
        "card of 0.2 at the path of 1.0": (Script(version="0.2.5", wire=("0.3")), f"serve it at {OLD} too"),
        "two cards": (
            Script(cards={CARD: {}, OLD: {"supportedInterfaces": None, "url": "http://127.0.0.1:9/"}}),
            "the same card at both paths",
        ),
        "no card": (Script(cards={}), f"serve the card at {CARD}"),
        "card for the few": (Script(card_status=401), "-H 'Authorization"),
        "card moved": (
            Script(card_status=302, card_headers={"Location": "https://elsewhere.example/card"}),
            "https://elsewhere.example/card",
        ),
        "card fails": (Script(card_status=500), "see the log of the server"),
        "page for a card": (Script(card_body="<html>", content_type="text/html"), "a page is there instead"),
        "list for a card": (Script(card_body="[1]"), "complete the card"),
        "card without an interface": (Script(cards={CARD: {"supportedInterfaces": []}}), "complete"),
        "member of another type": (Script(cards={CARD: {"version": 1}}), "complete the card"),
    },
    "card content type": {"card as text/html": (Script(content_type="text/html"), "application/json")},
    "card schema 1.0": {
        "member missing": (Script(cards={CARD: {"description": None}}), "correct these"),
        "members of 0.3 in a card of 1.0": (
            Script(version="0.3.0", cards={CARD: SAYS_1_0}),
            "supportedInterfaces",
        ),
    },
    "card schema 0.3": {
        "member of 0.3 missing": (
            Script(version="0.3.0", wire=("0.3"), cards={CARD: {"skills": None}}),
            "correct these",
        )
    },
    "card signatures": {
        "signature of nothing": (
            Script(cards={CARD: {"signatures": [{"protected": "e30", "signature": "AAAA"}]}}),
            "sign the card again",
        )
    },
    "interface": {
        "unknown binding": (
            Script(
                cards={
                    CARD: {
                        "supportedInterfaces": [
                            {"url": "amqp://x", "protocolBinding": "AMQP", "protocolVersion": "1.0"}
                        ]
                    }
                }
            ),
            "protocolBinding",
        )
    },
    RPC: {
        "card says 1.0, wire speaks 0.3": (
            Script(wire=("0.3")),
            '"protocolVersion": "0.3" for this interface',
        ),
        "dead interface": (Script(url="http://127.0.0.1:9/"), "which answers; see --public-url"),
        "interface at a wrong path": (Script(url="{}/a2a"), "write the URL where the agent takes JSONRPC"),
        "interface at a metadata service": (Script(url="http://169.254.169.254/"), "--trust-card-urls"),
        "page with status 500": (Script(fault="html"), "see the log of the agent"),
    },
    "JSONRPC 0.3.0": {
        "card says 0.3, wire speaks 1.0": (
            Script(version="0.3.0"),
            '"protocolVersion": "1.0" for this interface',
        )
    },
    "public URL": {"address of all interfaces": (Script(url="http://0.0.0.0:{port}/"), "--public-url")},
    "authentication": {
        "card asks, agent does not": (Script(cards={CARD: ASKS}), "take securityRequirements"),
        "agent asks, card does not": (Script(guarded=True), "declare securitySchemes"),
        "agent asks, card only describes": (
            Script(guarded=True, cards={CARD: {"securitySchemes": BEARER}}),
            "securityRequirements",
        ),
    },
    f"unknown task {RPC}": {
        "error for an unknown task": (
            Script(unknown={"code": -32603, "message": "boom"}),
            "TaskNotFoundError",
        ),
        "task for an unknown task": (Script(unknown=None), "TaskNotFoundError"),
    },
    f"message {RPC}": {
        "message fails": (Script(rejection={"code": -32603, "message": "boom"}), "see the log of the agent"),
        "message not understood": (
            Script(rejection={"code": -32602, "message": "a city, please"}),
            "--send TEXT",
        ),
        "message never answered": (Script(fault="silent"), "--timeout"),
    },
    "answers": {
        "other answers over another binding": (
            Script(bindings=BOTH, says={"HTTP+JSON": "goodbye"}),
            "the same agent",
        )
    },
    f"stream {RPC}": {
        "stream never ends": (Script(stream="endless"), "close the stream"),
        "task stream never ends": (Script(stream="endless", tasks=True), "after the terminal state"),
        "stream rejected": (Script(stream="rejected"), "capabilities.streaming: false"),
        "stream without events": (Script(stream="empty"), "text/event-stream"),
        "stream goes on after its end": (
            Script(stream="late", tasks=True),
            "no event after one with a terminal state",
        ),
        "stream with another state": (Script(stream="failed", tasks=True), "the same state and artifacts"),
    },
    f"size {RPC}": {
        "proxy with a small limit": (Script(fault="small"), "client_max_body_size"),
        "message to no task starts one": (Script(fault="eager"), "TaskNotFoundError"),
    },
    "webhooks": {
        "no notification": (Script(tasks=True, push="silent"), "SSRF policy"),
        "notifications rejected": (Script(tasks=True, push="rejected"), "pushNotifications: false"),
        "notification without token": (Script(tasks=True, push="anonymous"), "A2A-Notification-Token"),
    },
}
#: fault -> the agent, the steps that are ✗, and what their fix names
FAULTS: Mapping[str, tuple[Script, set[str], str]] = {
    name: (script, {step}, words) for step, rows in BY_STEP.items() for name, (script, words) in rows.items()
}


async def findings(
    target: str, *, send: str = "hello", limit: float = PATIENCE, **options: Any
) -> list[Finding]:
    parsed = parse(target)
    inspection = Inspection(
        parsed, DialOptions(named=target if "://" in target else "", **options), send, limit
    )
    return [one async for one in inspect(inspection)]


def wrong(found: list[Finding]) -> set[str]:
    return {one.name for one in found if not one.ok}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_and_its_fix(fault: str) -> None:
    script, names, fix = FAULTS[fault]
    waits = script.fault == "silent" or script.stream == "endless" or script.push == "silent"
    async with scripted(script) as url:
        if "{port}" in script.url:
            script.url = script.url.format(port=url.rpartition(":")[2])
        found = await findings(url, limit=SHORT if waits else PATIENCE)
    assert wrong(found) == names, [one for one in found if not one.ok]
    assert all(one.fix for one in found if not one.ok)
    assert any(fix in one.fix for one in found if not one.ok), [one.fix for one in found if not one.ok]


@pytest.mark.parametrize(
    "script",
    [
        Script(),
        Script(bindings=BOTH),
        Script(tasks=True, push="right"),
        Script(version="0.3.0", wire=("0.3",)),
        Script(guarded=True, cards={CARD: ASKS}),
        Script(wire=("1.0", "0.3")),
    ],
    ids=["message", "two bindings", "task", "0.3", "guarded", "two versions"],
)
async def test_an_agent_without_a_fault(script: Script) -> None:
    async with scripted(script) as url:
        found = await findings(url)
    assert wrong(found) == set()


async def test_advice_is_no_fault() -> None:
    async with scripted(Script(wire=("1.0", "0.3"))) as url:
        found = {one.name: one for one in await findings(url)}
    assert "0.3 over JSONRPC" in found["other versions"].detail
    assert "Cache-Control" in found["card caching"].fix
    assert "Access-Control-Allow-Origin" in found["card CORS"].fix
    assert "a2a-java-0.3" in found["SDKs of 0.3"].detail


@pytest.mark.parametrize("hangs_up", ["missing", "cached"])
async def test_a_request_beside_the_card_that_is_never_answered(hangs_up: str) -> None:
    """Servers close connections for paths that they do not have, and for headers that they do not know."""
    async with scripted(Script(hangs_up=hangs_up, card_headers={"ETag": '"1"'})) as url:
        found = await findings(url)
    assert wrong(found) == set()
    assert "message" in {one.name for one in found}
    assert "If-None-Match" in {one.name: one.fix for one in found}["card caching"]


async def test_credentials() -> None:
    script = Script(guarded=True, cards={CARD: ASKS})
    async with scripted(script) as url:
        given = await findings(url, parameters={"authorization": "Bearer right"})
        rejected = await findings(url, parameters={"authorization": "Bearer other"})
        none = {one.name: one for one in await findings(url)}
    assert wrong(given) == set()
    assert "message" in {one.name for one in given}
    assert wrong(rejected) == {RPC}
    assert "-H" in none[RPC].fix
    assert "message" not in none


async def test_agents_that_answer_differently_each_time_are_not_compared() -> None:
    class Counting(dict[str, str]):
        def get(self, _binding: str, _default: Any = None) -> str:
            self["n"] = self.setdefault("n", "") + "."
            return f"answer {self['n']}"

    async with scripted(Script(bindings=BOTH, says=Counting())) as url:
        found = {one.name: one for one in await findings(url)}
    assert found["answers"].ok
    assert "not comparable" in found["answers"].detail


async def test_reads_only() -> None:
    async with scripted(Script(fault="silent")) as url:
        found = await findings(url, send="")
    assert wrong(found) == set()
    assert {"message", "answers", "stream", "size", "webhooks"}.isdisjoint(one.name for one in found)


@pytest.mark.parametrize(
    ("target", "name", "fix"),
    [
        ("http://127.0.0.1:1", "TCP", "start the agent"),
        ("http://nobody.invalid", "DNS", "correct the name"),
        ("127.0.0.1:1", "TCP", "start the agent"),
    ],
)
async def test_nobody_there(target: str, name: str, fix: str) -> None:
    (found,) = await findings(target)
    assert (found.name, found.ok, found.unreachable) == (name, False, True)
    assert fix in found.fix


def context(folder: Path, **identity: Any) -> tuple[ssl.SSLContext, TlsFiles]:
    certificate, key = new_identity(**identity).written(folder, "own")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, TlsFiles(ca=certificate)


@pytest.mark.parametrize(
    ("identity", "trusted", "names", "fix"),
    [
        ({}, True, set(), ""),
        ({"ends": -0.5}, True, {"TLS dates"}, "renew the certificate"),
        ({"begins": 0.5}, True, {"TLS dates"}, "wait until it begins"),
        ({"address": "127.0.0.9"}, True, {"TLS names"}, "subjectAltName"),
        ({}, False, {"TLS chain"}, "--cacert"),
        ({"ends": -0.5, "address": "127.0.0.9"}, False, {"TLS dates", "TLS names", "TLS chain"}, "renew"),
    ],
    ids=["right", "expired", "not yet valid", "other name", "unknown authority", "everything"],
)
async def test_certificates(
    identity: dict[str, Any], trusted: bool, names: set[str], fix: str, tmp_path: Path
) -> None:
    server, files = context(tmp_path, **identity)
    async with scripted(Script(), server) as url:
        found = await findings(url, tls=files if trusted else None)
    assert wrong(found) == names
    assert not names or any(fix in one.fix for one in found if not one.ok)
    # Every call would fail for the same reason.
    assert ("card" in {one.name for one in found}) is not bool(names)


async def test_a_certificate_that_ends_soon_is_advice(tmp_path: Path) -> None:
    server, files = context(tmp_path, ends=3)
    async with scripted(Script(), server) as url:
        found = {one.name: one for one in await findings(url, tls=files)}
    assert found["TLS dates"].ok
    assert "3 days" in found["TLS dates"].fix


async def test_an_unverified_certificate_does_not_end_the_check(tmp_path: Path) -> None:
    server, _ = context(tmp_path)
    async with scripted(Script(), server) as url:
        found = await findings(url, tls=TlsFiles(verify=False))
    assert wrong(found) == {"TLS chain"}
    assert "message" in {one.name for one in found}


async def test_a_client_certificate_is_asked_for(tmp_path: Path) -> None:
    server, files = context(tmp_path)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(files.ca)
    own = TlsFiles(ca=files.ca, certificate=files.ca, key=str(tmp_path / "own.key"))
    async with scripted(Script(), server) as url:
        found = await findings(url, tls=files)
        given = await findings(url, tls=own)
    assert any("--cert" in one.fix for one in found if not one.ok), found
    assert wrong(given) == set()


async def test_a_port_without_tls() -> None:
    async with scripted(Script()) as url:
        (_, found) = await findings(url.replace("http:", "https:"))
    assert (found.name, found.ok) == ("TLS", False)
    assert "http://" in found.fix


@agent
async def echo(text: str) -> str:
    """Repeats the text."""
    return text


async def test_sdks_that_cannot_dial_a_url_for_grpc() -> None:
    async with serve(echo, options=ServeOptions(grpc_urls="http-in-0.x")) as server:
        found = await findings(f"http://{server.http}")
    assert wrong(found) == {"SDKs over gRPC"}
    (one,) = (one for one in found if not one.ok)
    assert "a2a-go-0.3" in one.detail
    assert "a2a-java-0.3" in one.detail
    assert "a2a-go-2" not in one.detail  # it reads the members of 1.0
    assert "without a scheme" in one.fix


@pytest.mark.parametrize("make", [lambda server: str(server.grpc), lambda server: f"grpc://{server.grpc}"])
async def test_a_grpc_address(make: Callable[[Any], str]) -> None:
    async with serve(echo) as server:
        found = await findings(make(server))
    assert wrong(found) == set()
    assert "message" in {one.name for one in found}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (
            {"protocolVersion": None},
            "0.2.5 is assumed, because a card without protocolVersion counts as that",
        ),
        (
            {"protocolVersion": None, "preferredTransport": None, "authentication": {"schemes": []}},
            "0.1.0 is assumed, because the card has `authentication` and no protocolVersion",
        ),
        ({"protocolVersion": "0.3.0"}, "the card says 0.3.0"),
    ],
)
async def test_the_version_that_is_assumed_is_named_with_the_reason(
    members: Mapping[str, Any], words: str
) -> None:
    async with scripted(Script(version="0.3.0", wire=("1.0",), cards={CARD: members, OLD: members})) as base:
        found = [one for one in await findings(base) if one.name.startswith("JSONRPC")]
    assert [one.detail for one in found if not one.ok] == [f"{words}, and {base}/ speaks 1.0"]


# `check` finds nothing wrong with agents of the official SDKs, and with our own in its cells.


#: seconds for a call, and for the notification that does not come
LIMIT = 5.0
TASK = "script: open; work busy; chunk one; done"


@pytest.mark.sdk
@pytest.mark.parametrize("send", ["message", TASK])
@pytest.mark.parametrize("release", AGENTS)
async def test_an_agent_of_the_official_sdk(
    release: str, send: str, peer_agents: Callable[..., Agent]
) -> None:
    running = peer_agents(release)
    found = {one.name: one for one in await findings(running.http, send=send, limit=LIMIT)}
    # These agents keep configurations of notifications, and have no sender.
    expected = {"webhooks"} if send == TASK else set()
    assert wrong(list(found.values())) == expected, [one for one in found.values() if not one.ok]
    assert "all" in found["answers"].detail
    assert "all" in found["stream"].detail


async def test_our_own_agent() -> None:
    async with serve(echo) as server:
        found = {one.name: one for one in await findings(f"http://{server.http}")}
    assert wrong(list(found.values())) == set(), [one for one in found.values() if not one.ok]
    assert "all 9 interfaces" in found["answers"].detail
    # The server has a card for readers that reject gRPC, and the advice is to ask for it.
    assert "google-adk-2" in found["SDKs of HTTP"].detail
    assert "?binding=JSONRPC&binding=HTTP%2BJSON" in found["SDKs of HTTP"].fix
    # So it has for readers that reject the members of 0.x.
    assert "a2a-java-1-alpha" in found["SDKs of 1.0 only"].detail
    assert "?version=1.0" in found["SDKs of 1.0 only"].fix
    assert [name for name, one in found.items() if one.fix] == ["SDKs of HTTP", "SDKs of 1.0 only"]


async def test_advice_names_no_card_that_the_server_does_not_have() -> None:
    """A server of 0.3 answers ?version=1.0 with an error."""
    async with serve(echo, [interface("JSONRPC", version="0.3")]) as server:
        found = {one.name: one for one in await findings(f"http://{server.http}")}
    assert "gateway" in found["SDKs of 1.0 only"].fix
    for one in found.values():
        assert "version=1.0" not in one.fix


async def test_a_card_that_every_sdk_reads() -> None:
    paths = {"/.well-known/agent-card.json": {}, "/.well-known/agent.json": {}}
    async with scripted(Script(version="0.3.0", wire=("0.3",), cards=paths)) as base:
        found = {one.name: one for one in await findings(base)}
    assert "can read this card" in found["SDKs"].detail
    assert not [name for name in found if name.startswith("SDKs of")]
