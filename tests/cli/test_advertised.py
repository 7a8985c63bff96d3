"""At the start, the URLs of the card are called: proxies that answer wrongly are warnings with the remedy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web

from a2a_bridge import agent, interface, serve
from a2a_bridge.bindings.binding import names
from a2a_bridge.cards import select
from a2a_bridge.cli.advertised import Advertised
from a2a_bridge.ext import ServeOptions, ServerTls
from a2a_bridge.pb import lf_a2a_v1 as hub
from tests.certificates import new_identity
from tests.cli.commands import ANY_PORT, Running, serving
from tests.patience import PATIENCE, until
from tests.sites import site

AGENT = """
from a2a_bridge import agent

@agent
async def echo(text):
    "Repeats the text."
    return text
"""


@agent
async def echo(text: str) -> str:
    """Repeats the text."""
    return text


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, dict[str, str], list[str]]]:
    """A proxy: its URL, its targets by the first part of the path, and the paths that it was asked for."""
    targets: dict[str, str] = {}
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        first, _, rest = request.path.removeprefix("/").partition("/")
        asked.append(first)
        assert "Authorization" not in request.headers
        if first in targets:
            async with (
                ClientSession() as session,
                session.request(
                    request.method,
                    f"{targets[first]}/{rest}",
                    data=await request.read(),
                    headers=request.headers,
                ) as found,
            ):
                return web.Response(
                    status=found.status, body=await found.read(), content_type=found.content_type
                )
        match first:
            case "html":
                return web.Response(text="<html>sign in</html>", content_type="text/html")
            case "moved":
                return web.Response(status=302, headers={"Location": "/login"})
            case "login":
                return web.Response(status=401, text="<html>who are you?</html>")
            case "down":
                return web.Response(status=503, text="no healthy upstream")
        return web.Response(status=404, text="no such site")

    async with site(answer) as url:
        yield url, targets, asked


async def warned(binding: str, url: str) -> str:
    (candidate,) = select(hub.AgentCard(supported_interfaces=[interface(binding, url)]), known=names())
    return await Advertised(pauses=(0.0,)).warning(candidate)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize(
    ("path", "said"),
    [("absent", "404"), ("html", "not"), ("moved", "leads to '/login'"), ("down", "no healthy upstream")],
)
async def test_a_proxy_that_answers_itself(binding: str, path: str, said: str) -> None:
    async with proxy() as (url, _, asked):
        text = await warned(binding, f"{url}/{path}")
        assert f"the card names {url}/{path} for {binding}" in text
        assert said in text
        assert "--public-url" in text
        assert f"below /{path}" in text
        assert len(asked) == 2  # a fault that does not last is none


async def test_nobody_listens(unused_tcp_port_factory: object) -> None:
    port = unused_tcp_port_factory()  # type: ignore[operator]
    for binding, flag in (("JSONRPC", "--public-url"), ("GRPC", "--public-grpc")):
        url = f"127.0.0.1:{port}" if binding == "GRPC" else f"http://127.0.0.1:{port}/"
        assert flag in await warned(binding, url)


async def test_what_leads_here_is_right() -> None:
    async with proxy() as (url, targets, _), serve(echo) as server:
        targets["here"] = f"http://{server.http}"
        assert not await warned("JSONRPC", f"{url}/here/")
        assert not await warned("HTTP+JSON", f"{url}/here")
        assert not await warned("GRPC", str(server.grpc))
        # An identity-aware proxy asks who calls, in its own words.
        assert not await warned("JSONRPC", f"{url}/login")


async def test_a_private_authority_is_no_fault_of_a_url(tmp_path: Path) -> None:
    options = ServeOptions(tls=ServerTls(*new_identity().written(tmp_path, "own")))
    async with serve(echo, options=options) as server:
        assert not await warned("JSONRPC", f"https://{server.http}/")
        assert not await warned("GRPC", f"https://{server.grpc}")
        assert "TLS" in await warned("JSONRPC", f"http://{server.http}/")


async def test_a_balancer_may_take_a_moment() -> None:
    async with proxy() as (url, targets, asked), serve(echo) as server:

        async def later() -> None:
            await until(lambda: bool(asked))
            targets["late"] = f"http://{server.http}"

        opened = asyncio.create_task(later())
        (one,) = select(
            hub.AgentCard(supported_interfaces=[interface("JSONRPC", f"{url}/late/")]), known=names()
        )
        async with asyncio.timeout(PATIENCE):
            assert not await Advertised(pauses=(0.05,) * 100).warning(one)
        await opened


async def lines(running: Running, count: int) -> list[str]:
    assert running.process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        return [(await running.process.stderr.readline()).decode() for _ in range(count)]


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "echo.py").write_text(AGENT)
    return f"{tmp_path}/echo.py"


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_server_says_each_wrong_url_once(target: str, workers: int) -> None:
    more = ("--workers", str(workers), "--advertise", "JSONRPC,HTTP+JSON", "--log-level", "error")
    async with (
        proxy() as (url, _, _),
        serving("serve", target, *ANY_PORT, "--public-url", f"{url}/off", *more) as running,
    ):
        found = await lines(running, 2)
        assert [
            f"for {binding}" in text for binding, text in zip(("JSONRPC", "HTTP+JSON"), found, strict=True)
        ] == [True, True]
        assert all(text.startswith("warning: ") and "--public-url" in text for text in found)
        assert "warning" not in (await running.ended_by_signal()).err


async def test_a_gateway_and_several_agents(target: str, tmp_path: Path) -> None:
    async with proxy() as (url, targets, asked), serving("serve", target, *ANY_PORT) as upstream:
        async with serving(
            "gateway", upstream.http, *ANY_PORT, "--no-grpc", "--public-url", f"{url}/one"
        ) as gateway:
            targets["one"] = gateway.http
            await until(lambda: asked.count("one") >= 2)
        file = tmp_path / "bridge.toml"
        file.write_text(
            f'[agents.red]\nupstream = "{upstream.http}"\npublic_url = "{url}/red"\n'
            f'[agents.blue]\nupstream = "{upstream.http}"\n'
        )
        async with serving("gateway", "--config", str(file), *ANY_PORT, "--no-grpc") as gateway:
            texts: list[str] = []
            while len(texts) < 2:
                texts += [text for text in await lines(gateway, 1) if text.startswith("warning")]
            assert all(f"{url}/red" in text for text in texts)


async def test_without_a_public_url_nobody_is_called(target: str) -> None:
    async with serving("serve", target, *ANY_PORT, "--log-level", "info") as running:
        done = await running.ended_by_signal()
        assert "GetTask" not in done.err
