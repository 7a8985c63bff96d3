"""A person who opens the root of a server sees what it is; programs are answered as before."""

import asyncio
import base64
import hashlib
import re
import shutil

import pytest
from aiohttp import ClientSession

from a2a_bridge import agent, connect, interface, serve
from a2a_bridge.agents import hosted, serve_agents
from a2a_bridge.app.runtime import asgi, locate_agent, serve_gateway
from a2a_bridge.cards.page import agent_page
from a2a_bridge.ext import ServeOptions
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge.testing.each import each
from tests.patience import PATIENCE
from tests.runtime.scene import commands

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@agent
async def echo(text: str) -> str:
    """Repeats <the> text."""
    return text


async def got(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    async with ClientSession() as session, session.request(method, url, headers=headers) as response:
        return response.status, dict(response.headers), await response.text()


async def test_a_browser_sees_the_agent() -> None:
    async with serve(echo) as server:
        url = f"http://{server.http}"
        status, headers, page = await got(url, **BROWSER)
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")
    assert "<h1>echo <small>1.0.0</small></h1>" in page
    assert "Repeats &lt;the&gt; text." in page
    for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
        for version in ("1.0", "0.3", "0.2.5"):
            assert f"<h3>{binding} {version}</h3>" in page
    assert f"{url}/.well-known/agent-card.json" in page
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert f"style-src 'sha256-{known}'" in policy
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{known}'" in policy
    # The newest version is open, the older ones are folded.
    folded = "".join(re.findall(r"<details>(.*?)</details>", page, re.DOTALL))
    assert "<h3>JSONRPC 1.0</h3>" not in folded
    assert "<h3>JSONRPC 0.3</h3>" in folded
    assert folded.count("<summary>Older versions: 0.3, 0.2.5</summary>") == 2


async def test_without_a_newer_version_nothing_is_folded() -> None:
    async with serve(echo, [interface("JSONRPC", version="0.3")]) as server:
        _, _, page = await got(f"http://{server.http}", **BROWSER)
    assert "<h3>JSONRPC 0.3</h3>" in page
    assert "<details>" not in page


@each("accept", ["*/*", "application/json", "text/event-stream", ""])
@each("bindings", [("JSONRPC",), ("HTTP+JSON",), ("JSONRPC", "HTTP+JSON")])
async def test_programs_are_answered_as_without_a_page(accept: str, bindings: tuple[str, ...]) -> None:
    async with serve(echo, [interface(one) for one in bindings]) as server:
        url = f"http://{server.http}/"
        status, headers, body = await got(url, Accept=accept)
        posted = await got(url, "POST", **BROWSER)
    assert status == (405 if "JSONRPC" in bindings else 404)
    assert headers["Content-Type"].startswith("application/")
    assert "<html" not in body
    assert "<html" not in posted[2]


async def test_a_head_has_no_body() -> None:
    async with serve(echo) as server:
        status, headers, body = await got(f"http://{server.http}/", "HEAD", **BROWSER)
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 500


async def test_json_rpc_at_the_root_is_as_before() -> None:
    async with serve(echo) as server, connect(f"http://{server.http}", binding="JSONRPC") as peer:
        assert (await peer.send("hello")).text == "hello"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_commands_work() -> None:
    async with serve(echo) as server:
        _, _, page = await got(f"http://{server.http}", **BROWSER)
        curls = [one for one in commands(page) if one.startswith("curl ")]
        assert len(curls) == 6
        for one in curls:
            process = await asyncio.create_subprocess_shell(
                f"{one} --silent --max-time {PATIENCE:.0f}", stdout=asyncio.subprocess.PIPE
            )
            out, _ = await process.communicate()
            assert b"hello" in out, (one, out)
            assert b"error" not in out, (one, out)


async def test_the_commands_for_grpc() -> None:
    async with serve(echo) as server:
        _, _, page = await got(f"http://{server.http}", **BROWSER)
    first, second = [one for one in dict.fromkeys(commands(page)) if one.startswith("grpcurl ")][:2]
    assert first.startswith("grpcurl -plaintext -d ")
    assert first.endswith(f"{server.grpc} lf.a2a.v1.A2AService/SendMessage")
    assert second.endswith(f"{server.grpc} a2a.v1.A2AService/SendMessage")


async def test_a_gateway_and_several_agents() -> None:
    async with serve(echo) as upstream:
        card, candidates, dialling = await locate_agent(f"http://{upstream.http}")
        async with serve_gateway(card, candidates, dial_options=dialling) as server:
            _, _, page = await got(f"http://{server.http}", **BROWSER)
            assert "<h1>echo <small>1.0.0</small></h1>" in page
            assert f"http://{server.http}" in page
            assert str(upstream.http) not in page
    options = ServeOptions()
    entries = [hosted("red", echo, options), hosted("blue", echo, options)]
    async with serve_agents(entries, options) as server:
        status, _, page = await got(f"http://{server.http}/", **BROWSER)
        assert status == 200
        (link, _) = re.findall(r'href="([^"]+)"', page)
        status, _, page = await got(link, **BROWSER)
        assert status == 200
        assert "<h1>echo <small>1.0.0</small></h1>" in page
        assert f"{link.rstrip('/')}/message:send" in page


async def test_inside_an_application() -> None:
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    application = asgi(echo)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "https",
        "path": "/agents/echo/",
        "raw_path": b"/agents/echo/",
        "root_path": "/agents/echo",
        "query_string": b"",
        "headers": [(b"host", b"agents.example"), (b"accept", b"text/html")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    async with asyncio.timeout(PATIENCE):
        await application(scope, receive, send)
        await application.drain(0)
    assert sent[0]["status"] == 200
    body = b"".join(one.get("body", b"") for one in sent[1:])  # type: ignore[misc]
    assert b"https://agents.example/agents/echo/message:send" in body


def test_everything_of_a_card_is_escaped() -> None:
    evil = "<script>alert(1)</script>\"'&"
    card = hub.AgentCard(name=evil, description=evil, version=evil)
    card.skills.add(id=evil, name=evil, description=evil, examples=[evil])
    card.security_schemes[evil].SetInParent()
    card.supported_interfaces.add(url=f"http://x/{evil}", protocol_binding="JSONRPC", protocol_version="1.0")
    card.supported_interfaces.add(url=evil, protocol_binding=evil, protocol_version=evil)
    card.supported_interfaces.add(url=f"$(reboot) {evil}", protocol_binding="GRPC", protocol_version="1.0")
    page = agent_page(card, f"http://{evil}").decode()
    assert page.count("<script") == 1  # the one of the page itself
    assert "<script>alert" not in page
    assert "alert(1)" in page
    (command,) = (one for one in commands(page) if one.startswith("grpcurl"))
    assert "'$(reboot)" in command
