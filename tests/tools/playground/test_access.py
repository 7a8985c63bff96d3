"""Who may use the playground, and what is answered to mistakes."""

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from a2a_bridge.bindings.binding import ListenAddress
from a2a_bridge.codec import dumps, loads
from a2a_bridge_tools import playground
from a2a_bridge_tools.playground import exchange
from a2a_bridge_tools.playground.exchange import KEPT, LONGEST, History
from a2a_bridge_tools.playground.page import Access, Playground
from tests.cli.commands import ANY_PORT, command, serving
from tests.tools.playground.api import api_of, message

DEMO = ("server", *ANY_PORT, "--ui")


async def test_the_token_the_host_and_the_origin() -> None:
    async with serving(*DEMO) as running, api_of(running) as api, aiohttp.ClientSession(api.place) as other:
        async with other.get(f"/?token={api.token}") as response:
            assert (response.status, response.content_type) == (200, "text/html")
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert "Set-Cookie" not in response.headers
        for path in ("/", "/?token=wrong"):
            async with other.get(path) as response:
                assert response.status == 403
        async with other.get("/api/state") as response:
            assert response.status == 401
        for name, value in (("Host", "evil.example"), ("Origin", "https://evil.example"), ("Origin", "null")):
            async with api.session.get("/api/state", headers={name: value}) as response:
                assert response.status == 403, (name, value)
        async with api.session.get("/api/state", headers={"Origin": api.place}) as response:
            assert response.status == 200
        async with other.post("/webhook/guessed", data=b"{}") as response:
            assert response.status == 404
        async with other.get("/static/index.html") as response:
            assert response.status == 200
    done = await running.ended()
    assert api.token not in done.err


async def test_no_name_of_a_request_becomes_a_path(tmp_path: Path) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("secret")
    (tmp_path / "link.html").symlink_to(secret)
    static = Path(playground.__file__).parent / "static"
    beside = os.path.relpath(secret, static)  # noqa: ASYNC240  it reads nothing
    async with serving(*DEMO) as running, api_of(running) as api:
        async with api.session.get("/static/app.js") as response:
            assert response.status == 200
            assert await response.read() == (static / "app.js").read_bytes()
        names = [str(secret), beside, f"./{beside}", str(tmp_path / "link.html"), "../page.py", "./app.js"]
        names += [f"{'a' * 3000}.js", "a\0.js", ".", "..", "", "APP.JS"]
        for name in names:
            path = URL(f"{api.place}/static/{quote(name, safe='')}", encoded=True)
            async with api.session.get(path) as response:
                assert response.status == 404, name
                assert b"secret" not in await response.read()
        done = await running.ended_by_signal()
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Host": "127.0.0.1:80"}, True),
        ({"Host": "[::1]:80"}, True),
        ({"Host": "localhost:80"}, True),
        ({"Host": "box.example:80"}, True),
        ({"Host": "localhost.evil.example:80"}, False),
        ({"Host": ""}, False),
        ({"Host": "[localhost"}, False),
        ({"Host": "localhost:80", "Origin": "http://localhost:81"}, False),
        ({"Host": "localhost:80", "Origin": "http://localhost:80"}, True),
    ],
)
def test_names_that_lead_here(headers: dict[str, str], allowed: bool) -> None:
    assert Access("box.example").is_here(headers) is allowed


@pytest.mark.parametrize("token", ["é", "\udcff"])
def test_a_token_of_any_characters_is_compared(token: str) -> None:
    """Bytes of a header that are not UTF-8 come as lone surrogates."""
    assert not Access().bears({"Authorization": f"Bearer {token}"})


MISTAKES: list[tuple[Any, int, str]] = [
    ([], 400, ""),
    ({"operation": "Nothing"}, 400, "operation"),
    ({"operation": "SendMessage"}, 400, "request"),
    ({"operation": "GetTask", "request": {"id": 7}, "cells": ["JSONRPC 1.0"]}, 400, "request.id"),
    ({"operation": "GetTask", "request": {"id": "x"}, "cells": []}, 400, "cells"),
    ({"operation": "GetTask", "request": {"id": "x"}, "cells": ["SOAP"]}, 400, "cells"),
    ({"operation": "GetTask", "request": {"id": "x"}, "agent": "other", "cells": ["GRPC 1.0"]}, 404, "agent"),
    (
        {"operation": "GetTask", "request": {"id": "x"}, "cells": ["GRPC 1.0"], "headers": {"a b": "c"}},
        400,
        "headers.a b",
    ),
]


async def test_mistakes_name_the_member_at_fault() -> None:
    async with serving(*DEMO) as running, api_of(running) as api:
        for body, status, field in MISTAKES:
            found, error = await api.rejected("/api/calls", body)
            assert (found, error.get("field", "")) == (status, field), (body, error)
        async with api.session.post("/api/calls", data=b"{") as response:
            assert (await response.json())["error"]["code"] == "PARSE_ERROR"
        for body in (b"no json", b"[]", b'{"sent": true}'):
            async with api.session.post("/api/import", data=body) as response:
                assert response.status == 400
                assert "line 1" in (await response.json())["error"]["message"]
        for path in ("/api/history/7", "/api/export?number=7", f"/api/export?number={'9' * 5000}"):
            async with api.session.get(path) as response:
                assert (response.status, (await response.json())["error"]["field"]) == (404, "number")
        assert await api.get("/api/history") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("serve", "x.py", "--ui", "--workers", "2"), "one process"),
        (("serve", "x.py", "--ui", "--server", "envoy"), "one process"),
        (("gateway", ":1", "--ui", "--workers", "2"), "one process"),
        (("server", "--ui", "--ui-listen", "nowhere"), "not HOST:PORT"),
        (("ui", "nothing at all"), "is no target"),
    ],
)
async def test_mistakes_of_the_command_line(arguments: tuple[str, ...], text: str) -> None:
    done = await command(*arguments)
    assert done.code == 2
    assert text in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("listen", "host", "place"),
    [
        ("0.0.0.0:0", "", ""),
        ("0.0.0.0:0", "192.0.2.7:80", "http://192.0.2.7:80"),
        ("0.0.0.0:0", "0.0.0.0:80", ""),
        ("127.0.0.1:0", "192.0.2.7:80", ""),
    ],
)
async def test_the_agent_gets_a_webhook_that_can_be_called(listen: str, host: str, place: str) -> None:
    async with serving(*DEMO, "--ui-listen", listen) as running, api_of(running) as api:
        assert api.place.startswith("http://127.0.0.1:")
        headers = {"Host": host} if host else {}
        async with api.session.get("/api/state", headers=headers) as response:
            assert (await response.json())["webhook"].startswith(f"{place or api.place}/webhook/")


async def test_an_address_in_use() -> None:
    async with serving(*DEMO) as running:
        taken = running.http.removeprefix("http://")
        done = await command("server", *ANY_PORT, "--ui", "--ui-listen", taken)
        assert done.code == 2
        assert "--ui-listen" in done.err


async def test_an_agent_that_cannot_be_reached(unused_tcp_port: int) -> None:
    done = await command("ui", f"http://127.0.0.1:{unused_tcp_port}")
    assert done.code == 3
    assert "Traceback" not in done.err


async def test_an_agent_that_has_gone() -> None:
    async with serving("server", *ANY_PORT) as agent, serving("ui", agent.http) as running:
        await agent.ended_by_signal()
        async with api_of(running) as api, api.session.get("/api/agent") as response:
            assert response.status == 502
            assert (await response.json())["error"]["code"]


async def test_a_large_notification_is_not_kept_whole() -> None:
    page = Playground("a2a-bridge", "client", list, ListenAddress())
    text = "x" * 4_000_000
    event = dumps(
        {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"parts": [{"text": text}]}}}
    )
    async with page.open() as place, aiohttp.ClientSession() as other:
        hook = URL(place).with_path(f"/webhook/{page._access.webhook}").with_query({})
        for _ in range(3):
            async with other.post(hook, data=BytesIO(event)) as response:
                assert response.status == 204
        kept = [loads(line) for line in page.deliveries._kept]
    assert [(len(one["body"]), one["event"]) for one in kept] == [(64 * 1024, None)] * 3


async def test_methods_that_a_path_does_not_have() -> None:
    page = Playground("a2a-bridge", "client", list, ListenAddress())
    async with page.open() as place, aiohttp.ClientSession() as api:
        headers = {"Authorization": f"Bearer {URL(place).query['token']}"}
        async with api.put(URL(place).with_path("/api/history"), headers=headers) as response:
            assert (response.status, response.headers["Allow"]) == (405, "GET, DELETE")
        async with api.head(place) as response:
            assert (response.status, response.content_type) == (200, "text/html")


def test_the_history_is_bounded() -> None:
    history = History()
    first = history.begin("a", "SendMessage", message("first"), ["GRPC 1.0"])
    first.pinned = True
    for number in range(KEPT + 50):
        history.begin("a", "SendMessage", message(str(number)), ["GRPC 1.0"])
    entries = history.entries()
    assert (len(entries), entries[-1]["summary"]) == (KEPT, "first")


def test_the_history_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "TOTAL", 10_000)
    history = History()
    for number in range(20):
        history.begin("a", "SendMessage", message(str(number)), []).add({"event": "x" * 3000}, needed=False)
    assert [one["summary"] for one in history.entries()] == ["19", "18", "17", "16"]


def test_a_long_exchange_says_that_it_is_cut() -> None:
    one = History().begin("a", "SendMessage", message("x"), ["GRPC 1.0"])
    for _ in range(5):
        one.add({"event": "x" * (LONGEST // 2)}, needed=False)
    one.add({"end": {}})
    assert one.size < 2 * LONGEST
    assert [b'"cut"' in line for line in one.lines].count(True) == 1
    assert b'"end"' in one.lines[-1]


def test_servers_without_it_load_nothing_of_it() -> None:
    code = (
        "import sys\n"
        "from a2a_bridge.cli import configured_agents, gateway, gateway_setup, running, serve\n"
        "print([name for name in sys.modules if 'playground' in name or name == 'aiohttp.web'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
