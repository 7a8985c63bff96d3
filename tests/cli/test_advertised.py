"""At the start, the URLs of the card are called: proxies that answer wrongly are warnings with the remedy."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from a2a_bridge import agent, interface, serve
from a2a_bridge.bindings.binding import names
from a2a_bridge.cards import select
from a2a_bridge.cli.advertised import Advertised
from a2a_bridge.ext import ServeOptions, ServerTls
from a2a_bridge.pb import lf_a2a_v1 as hub
from a2a_bridge_tools.client.comparing import canonical, differences, without_generated
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


# --- When two answers count as the same ---
def task(task_id: str, context: str, **more: Any) -> dict[str, Any]:
    return {
        "task": {"id": task_id, "contextId": context, "status": {"timestamp": "2026-01-01T00:00:00Z"}} | more
    }


def test_ids_and_times_of_two_runs_do_not_count() -> None:
    other = task("t-2", "c-2")
    other["task"]["status"]["timestamp"] = "2027-02-02T00:00:00Z"
    assert canonical(task("t-1", "c-1")) == canonical(other)


def test_how_ids_relate_does_count() -> None:
    same = [{"taskId": "a"}, {"taskId": "a"}]
    other = [{"taskId": "a"}, {"taskId": "b"}]
    assert canonical(same) == canonical([{"taskId": "x"}, {"taskId": "x"}])
    assert canonical(same) != canonical(other)


def test_an_id_in_a_text_is_still_that_id() -> None:
    def answer(task_id: str) -> list[Any]:
        return [{"taskId": task_id}, {"text": f"no task {task_id}"}]

    assert canonical(answer("11111111-1")) == canonical(answer("22222222-2"))
    assert canonical(answer("11111111-1")) != canonical([{"taskId": "22222222-2"}, {"text": "no task"}])


@pytest.mark.parametrize("seed", range(5))
def test_mentions_of_many_ids_equal_a_scan_of_all(seed: int) -> None:
    """Ids begin alike, contain each other, and are mentioned before and after they appear."""
    choose = random.Random(seed)
    ids = ["01a22409-" + "".join(choose.choices("ab", k=choose.choice([0, 4, 8]))) for _ in range(60)]
    ids += [one[2:] for one in ids[:9]] + ["short", "x" * 8]
    texts = [" ".join(choose.choices([*ids, "no id", "<id 3>", ""], k=3)) for _ in range(120)]
    tree = choose.sample([{"id": one} for one in ids] + [{"text": one} for one in texts], 190)
    names: dict[str, str] = {}
    expected = []
    for one in tree:
        if "id" in one:
            expected.append({"id": names.setdefault(one["id"], f"<id {len(names) + 1}>")})
            continue
        text = one["text"]
        for known, name in names.items():
            text = text.replace(known, name) if len(known) >= 8 else text
        expected.append({"text": text})
    assert canonical(tree) == expected


def test_the_order_of_members_does_not_count_and_that_of_items_does() -> None:
    assert canonical({"a": 1, "b": 2}) == canonical({"b": 2, "a": 1})
    assert canonical([1, 2]) != canonical([2, 1])


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({}, {"b": None}, ["b"]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b"]),
        ([1], [1, 2], ["whole"]),
        ({"a": {"b": "x"}, "c": 1}, {"a": {"b": "y"}, "c": 2}, ["a.b", "c"]),
    ],
)
def test_differences_are_named_by_their_path(left: Any, right: Any, where: list[str]) -> None:
    assert [one.path for one in differences(left, right)] == where


def test_a_long_value_is_cut_in_a_difference() -> None:
    (line,) = differences("x" * 1000, "y")
    assert len(str(line)) < 300


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("run 0b0f1c9e-3f0e-4d0a-9b1e-0f6a5b2c7d11", "run 7c1d2e3f-0a1b-4c2d-8e3f-9a0b1c2d3e4f", True),
        ("weather-9f86d081884c", "weather-60303ae22b99", True),
        ("call_7FhQ2mZx91Lk", "call_Qm0vT5rYb2Xp", True),
        ("Oslo: 21", "Oslo: 22", False),
        ("internationalization", "internationalisation", False),
        ("a 9f86d081884c", "b 60303ae22b99", False),
    ],
)
def test_generated_values_are_distinguished_from_other_differences(left: str, right: str, same: bool) -> None:
    one, other = ({"metadata": {"run": text}, "n": [1]} for text in (left, right))
    assert (without_generated(one) == without_generated(other)) is same
    assert without_generated({"n": 12345678}) == {"n": 12345678}
